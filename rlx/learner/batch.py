"""Turn groups of trajectories into flat tensors: every context once, every sampled token once, nothing padded.

The model reads a forest of segments. A segment is a run of tokens that is computed once, after its context. The context
is the path of the parent segment, up to one of the parent's tokens. Positions of the segment go on from there.

    prompt ---+--- sample 0: completion, observation, completion ...
              |        +--- a fork of it, in mid-turn: forced ids, the rest of the completion ...
              +--- sample 1 ...

A prompt that a group begins with is a segment of its own, which trains nothing. A trajectory stays in one segment as
long as each turn's prompt extends what came before; a turn whose context was rewritten, and a fork, begin another,
which leaves the group's segments where they stop being alike. What a fork replays is its context, and is trained by
whoever sampled it, once. What it was forced to say is context too; or, if it is to be learned from, a token like any
other, whose log-prob no engine knows: not a number, until the learner has measured it.

Legend: N tokens of all segments, S segments, M trained tokens (row-major: the tokens of row 0, of row 1, ...), R rows;
`_start` columns have one entry more than they delimit.
"""

# ruff: noqa: N815 (fields carry shape suffixes)
from __future__ import annotations

import math
from array import array
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from itertools import chain, groupby
from typing import Any

import torch
from torch import Tensor

from rlx.algo.parts import Columns, Credited, PerRow, PerToken
from rlx.base.limits import MistakeError
from rlx.learner.returned import check_credited, check_multiplicity, numbers_of
from rlx.learner.rows import Decision, decisions, num_prefix, num_unknown
from rlx.runs.codec import common_prefix
from rlx.types import Group, Turn


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """Everything one step learns from, on the CPU. `Learner.annotate` fills `old_M`, `reference_M` and `weight_M`, and
    `with_credit` the columns after them."""

    token_ids_N: Tensor
    start_S: Tensor
    parent_S: Tensor
    """The segment that each one follows, or -1."""
    joint_S: Tensor
    """Number of the parent's tokens before the segment."""
    context_S: Tensor
    """Number of tokens of all segments before it: its first position."""
    trajectory_S: Tensor
    """Trajectory of the segment; -1 for a prompt."""
    position_M: Tensor
    """Index in N of each trained token."""
    target_M: Tensor
    """Id of the choice there: the token's, or an added action's, of whose description it is the first."""
    token_start_S: Tensor
    """Index in M of the first token of each segment."""
    row_M: Tensor
    engine_logp_M: Tensor
    mask_M: Tensor
    """The automaton state a token was sampled in, or -1."""
    trajectory_R: Tensor
    group_R: Tensor
    sampled: bool
    """True if any token has a log-prob of a policy; False for a batch of demonstrations alone."""
    old_M: Columns = field(default_factory=dict)
    """Columns of the learner under the weights that are about to move, where asked for."""
    reference_M: Columns = field(default_factory=dict)
    """Columns of the start policy, where asked for."""
    counts_as_R: Tensor | None = None
    """Trajectory of each row in losses, from `Credited.counts_as`; None: the row's own trajectory."""
    weight_M: Tensor | None = None
    advantage_M: Tensor | None = None
    multiplicity_M: Tensor | None = None
    returns_M: Tensor | None = None
    returns_after_M: Tensor | None = None
    """At the last token of each row; not a number at others."""

    @property
    def num_tokens(self) -> int:
        """Number of trained tokens (M)."""
        return len(self.position_M)

    @property
    def num_turns(self) -> int:
        """Number of turns with a trained token."""
        return len(self.row_M.unique())

    def num_selected(self, credited: Credited, credited_batch: Batch) -> int:
        """Return the number of turns with a selected token; without `selected`, all turns of `credited_batch`."""
        if credited.selected is None:
            return credited_batch.num_turns
        return len(self.row_M[self.spread("selected", credited.selected) != 0].unique())

    @property
    def length_M(self) -> Tensor | None:
        """Number of trained tokens of the trajectory that each token counts as part of, where credit says."""
        if self.counts_as_R is None:
            return None
        counted_M = self.counts_as_R[self.row_M]
        return counted_M.bincount(self.multiplicity_M)[counted_M]

    @property
    def old_logp_M(self) -> Tensor:
        """Log-probs that a policy is compared with: the engine's, or the learner's where their distance is weighed."""
        return self.engine_logp_M if self.weight_M is None else self.old_M["logp"]

    def with_credit(self, credited: Credited) -> Batch:
        """Add credit's values for each trained token; return the batch of the tokens that credit keeps."""
        check_credited(credited, self.row_M.bincount(minlength=len(self.trajectory_R)))
        returns, after = credited.returns, credited.returns_after
        copies, keep = credited.multiplicity, credited.keep
        multiplicity_M = None if copies is None else self.spread("multiplicity", copies)
        batch = replace(
            self,
            advantage_M=self.spread("advantage", credited.advantage),
            multiplicity_M=multiplicity_M,
            returns_M=None if returns is None else self.spread("returns", returns),
            returns_after_M=None if after is None else self.at_ends(self.spread("returns_after", after)),
            counts_as_R=None if credited.counts_as is None else torch.tensor(credited.counts_as),
        )
        keep_M = None if keep is None else self.spread("keep", keep) != 0
        if multiplicity_M is not None:
            check_multiplicity(multiplicity_M, self.row_M)
            keep_M = multiplicity_M > 0 if keep_M is None else keep_M & (multiplicity_M > 0)
        return batch if keep_M is None else batch.reduced_to(keep_M)

    def spread(self, name: str, column: PerRow | PerToken) -> Tensor:
        """Return a column of credit over the trained tokens."""
        numbers = numbers_of(name, column)
        return numbers[self.row_M] if isinstance(column, PerRow) else numbers

    def at_ends(self, column_M: Tensor) -> Tensor:
        """Return the column at the last token of each row, and nan elsewhere."""
        is_last_M = self.row_M.diff(append=torch.tensor([-1])) != 0
        return column_M.where(is_last_M, torch.nan)

    def reduced_to(self, keep_M: Tensor) -> Batch:
        """Return the batch as if nothing else had been sampled; other tokens are context of trained ones after them."""
        segment_M = torch.arange(len(self.token_start_S) - 1).repeat_interleave(self.token_start_S.diff())
        num_S = segment_M[keep_M].bincount(minlength=len(self.token_start_S) - 1)
        columns = {f.name: getattr(self, f.name) for f in fields(self) if f.name.endswith("_M")}
        chosen: dict[str, Any] = {name: chosen_of(column, keep_M) for name, column in columns.items()}
        return replace(self, token_start_S=starts(num_S.tolist()), **chosen)


def chosen_of(column: Tensor | Columns | None, keep_M: Tensor) -> Tensor | Columns | None:
    """Return the kept tokens of a column, or of each of several."""
    if isinstance(column, Mapping):
        return {name: values[keep_M] for name, values in column.items()}
    return None if column is None else column[keep_M]


@dataclass(slots=True)
class Draft:
    """The flat lists a batch is made of, while they grow."""

    segments: list[list[int]] = field(default_factory=list)
    parent: list[int] = field(default_factory=list)
    joint: list[int] = field(default_factory=list)
    context: list[int] = field(default_factory=list)
    trajectory: list[int] = field(default_factory=list)
    offset: list[int] = field(default_factory=list)
    """Offset of a trained token within its segment."""
    num_trained: list[int] = field(default_factory=list)
    """Per segment."""
    row: list[int] = field(default_factory=list)
    engine_logp: list[float] = field(default_factory=list)
    mask: list[int] = field(default_factory=list)
    target: list[int] = field(default_factory=list)


def collate(groups: Sequence[Group]) -> Batch:
    """Build the forest of a step's trajectories. MistakeError where there is nothing to learn from."""
    table, columns = list(decisions(groups)), Draft()
    for _, group_rows in groupby(enumerate(table), key=lambda numbered: numbered[1].group):
        first = len(columns.segments)
        for _, trajectory_rows in groupby(group_rows, key=lambda numbered: numbered[1].trajectory):
            append_trajectory(columns, list(trajectory_rows), first)
    if not columns.row:
        raise MistakeError("collate: no episode of this step has a sampled token; see how the episodes ended")
    return freeze(columns, table)


def append_trajectory(columns: Draft, numbered: Sequence[tuple[int, Decision]], first: int) -> None:
    """Add a trajectory's own turns, numbered by row; `first` is its group's first segment."""
    read: list[int] = []
    for row, d in numbered:
        num_prefix_tokens = num_prefix(d)
        context = [*d.sampled_turn.prompt_ids, *d.sampled_turn.completion.token_ids[:num_prefix_tokens]]
        if not context:
            raise ValueError(
                f"collate: turn {d.turn} of a trajectory of task {d.episode.task.id!r} has an empty prompt"
            )
        if read and context[: len(read)] == read:
            columns.segments[-1].extend(context[len(read) :])
        else:
            begin_segment(columns, context, d.trajectory, first)
        append_sampled(columns, d.sampled_turn, num_prefix_tokens, row, num_unknown(d))
        read = [*d.sampled_turn.prompt_ids, *d.sampled_turn.completion.token_ids]


def begin_segment(columns: Draft, context: list[int], trajectory: int, first: int) -> None:
    """A segment that goes on from `context`: from as much of it as one of the group's segments has, or else from a
    prompt of its own."""
    parent, length = longest_path(columns, context, first)
    if not length:
        parent, length = append_segment(columns, -1, 0, 0, -1, context), len(context)
    joint = length - columns.context[parent]
    append_segment(columns, parent, joint, length, trajectory, context[length:])


def append_segment(columns: Draft, parent: int, joint: int, context: int, trajectory: int, token_ids: list[int]) -> int:
    """Append a segment; return its number."""
    columns.segments.append(token_ids)
    columns.parent.append(parent)
    columns.joint.append(joint)
    columns.context.append(context)
    columns.trajectory.append(trajectory)
    columns.num_trained.append(0)
    return len(columns.segments) - 1


def longest_path(columns: Draft, ids: list[int], first: int) -> tuple[int, int]:
    """The segment, from `first` on, whose path begins as `ids` for longest, and for how many tokens."""
    alike: list[int] = []
    for s in range(first, len(columns.segments)):
        parent, context = columns.parent[s], columns.context[s]
        above = alike[parent - first] if parent >= 0 else 0
        alike.append(above if above < context else context + num_alike(columns.segments[s], ids, context))
    best = max(alike, default=0)
    return (first + alike.index(best) if alike else -1), best


def num_alike(segment: list[int], ids: list[int], start: int) -> int:
    """Return the number of leading tokens that a segment and `ids` from `start` on have in common."""
    num = min(len(segment), len(ids) - start)
    if not num or segment[0] != ids[start]:
        return 0
    return common_prefix(segment, ids[start : start + num])


def append_sampled(columns: Draft, turn: Turn, num_prefix_tokens: int, row: int, unknown: int = 0) -> None:
    """Extend the last segment by what was sampled of a turn, or is to be learned from as if it had been."""
    done, segment = turn.completion, columns.segments[-1]
    num = len(done.token_ids) - num_prefix_tokens
    columns.offset.extend(range(len(segment), len(segment) + num))
    columns.row.extend([row] * num)
    columns.engine_logp.extend([math.nan] * unknown + list(done.logprobs[num_prefix_tokens + unknown :]))
    columns.mask.extend(done.mask_ids[num_prefix_tokens:] or [-1] * num)
    columns.target.extend((done.chosen_ids or done.token_ids)[num_prefix_tokens:])
    columns.num_trained[-1] += num
    segment.extend(done.token_ids[num_prefix_tokens:])


def flat(values: Iterable[float], dtype: torch.dtype = torch.long) -> Tensor:
    """Return what torch.tensor would, ten times as fast."""
    numbers = array("q" if dtype == torch.long else "f", values)
    return torch.frombuffer(numbers, dtype=dtype) if numbers else torch.empty(0, dtype=dtype)


def starts(lengths: Sequence[int]) -> Tensor:
    """Return 0 and the running sums: where each of these lengths starts, and the end."""
    return flat([0, *lengths]).cumsum(0)


def freeze(columns: Draft, table: Sequence[Decision]) -> Batch:
    start = starts([len(s) for s in columns.segments])
    num_trained = flat(columns.num_trained)
    return Batch(
        token_ids_N=flat(chain.from_iterable(columns.segments)),
        start_S=start,
        parent_S=flat(columns.parent),
        joint_S=flat(columns.joint),
        context_S=flat(columns.context),
        trajectory_S=flat(columns.trajectory),
        position_M=flat(columns.offset) + start[:-1].repeat_interleave(num_trained),
        target_M=flat(columns.target),
        token_start_S=starts(columns.num_trained),
        row_M=flat(columns.row),
        engine_logp_M=flat(columns.engine_logp, torch.float32),
        mask_M=flat(columns.mask),
        trajectory_R=flat(d.trajectory for d in table),
        group_R=flat(d.group for d in table),
        sampled=any(columns.engine_logp),
    )
