"""From groups of trajectories to flat tensors: every prompt once, every sampled token once, nothing padded.

A trajectory becomes one sequence as long as each turn's prompt extends what came before; a turn whose context was
rewritten begins a sequence of its own. A sequence is a prefix (its first prompt, stored once for all of a group that
begin alike) and its own tokens: completions, which are trained, and the observations between them, which are not.

Legend: P tokens of all prefixes, G prefixes, N own tokens of all sequences, S sequences, M trained tokens (row-major:
the tokens of row 0, of row 1, ...), R rows; `_start` columns have one entry more than they delimit.
"""

# ruff: noqa: N815 (fields carry shape suffixes)
from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from operator import add

import torch
from torch import Tensor

from rlx.types import Group, Rows, Trajectory, Turn


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """Everything one step learns from, on the CPU. Annotations are None until the learner adds them."""

    prefix_ids_P: Tensor
    prefix_start_G: Tensor
    token_ids_N: Tensor
    start_S: Tensor
    prefix_S: Tensor
    trajectory_S: Tensor
    position_M: Tensor
    """Where in N each trained token stands."""
    token_start_S: Tensor
    """Where in M the tokens of each sequence begin."""
    row_M: Tensor
    engine_logp_M: Tensor
    mask_M: Tensor
    """The automaton state a token was sampled in, or -1."""
    trajectory_R: Tensor
    group_R: Tensor
    sampled: bool
    """Whether the tokens came from a policy; demonstrations have no log-probs to compare with."""
    reference_logp_M: Tensor | None = None
    old_logp_M: Tensor | None = None
    weight_M: Tensor | None = None
    value_M: Tensor | None = None
    advantage_M: Tensor | None = None

    @property
    def num_tokens(self) -> int:
        return len(self.position_M)

    def with_advantages(self, advantages: Tensor) -> Batch:
        """Take one advantage per row, or one per trained token."""
        if len(advantages) == len(self.trajectory_R):
            return replace(self, advantage_M=advantages[self.row_M])
        if len(advantages) == self.num_tokens:
            return replace(self, advantage_M=advantages)
        raise ValueError(
            f"credit gave {len(advantages)} advantages for {len(self.trajectory_R)} rows of {self.num_tokens} tokens; "
            "give one per row or one per token"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """One row: a turn, and where it stands. Trajectories are numbered over the batch."""

    group: int
    trajectory: int
    turn: int
    what: Turn
    of: Trajectory


def decisions(groups: Sequence[Group]) -> Iterator[Decision]:
    """The rows of a batch, in order.

    Episodes that ended in an error say nothing about the policy and are left out; turns that a fork replays are rows of
    its parent.
    """
    kept = ((g, t) for g, group in enumerate(groups) for t in group.trajectories if t.status != "error" and t.turns)
    for number, (group, trajectory) in enumerate(kept):
        for turn, what in enumerate(trajectory.turns):
            if turn >= first_own(trajectory):
                yield Decision(group=group, trajectory=number, turn=turn, what=what, of=trajectory)


def rows(groups: Sequence[Group], batch: Batch) -> Rows:
    """What credit sees: a row per decision, with the batch's values where they were annotated."""
    table = list(decisions(groups))
    num_tokens = tuple(len(d.what.completion.token_ids) for d in table)
    return Rows(
        group=tuple(d.group for d in table),
        trajectory=tuple(d.trajectory for d in table),
        turn=tuple(d.turn for d in table),
        parent=parents(table),
        reward=tuple(d.what.reward for d in table),
        num_tokens=num_tokens,
        success=tuple(d.of.success for d in table),
        values=() if batch.value_M is None else tuple(tuple(v.tolist()) for v in batch.value_M.split(list(num_tokens))),
        replayed=tuple(earned_before(d.of) for d in table) if any(d.of.fork for d in table) else (),
    )


def earned_before(trajectory: Trajectory) -> float:
    """What a fork earned in the turns that it replays, summed as its parent's are; 0 for others."""
    return reduce(add, (turn.reward for turn in trajectory.turns[: first_own(trajectory)]), 0.0)


def first_own(trajectory: Trajectory) -> int:
    """The first turn that is not replayed."""
    return trajectory.fork.turn if trajectory.fork else 0


def parents(table: Sequence[Decision]) -> tuple[int, ...]:
    """Each row's row before it in its episode; a fork's first row has the row it left; -1 at the start."""
    row_of = {(d.group, d.of.sample, d.turn): row for row, d in enumerate(table)}

    def parent(d: Decision) -> int:
        fork = d.of.fork
        if fork is not None and d.turn == fork.turn:
            return row_of.get((d.group, fork.parent, fork.turn), -1)
        return row_of.get((d.group, d.of.sample, d.turn - 1), -1)

    return tuple(parent(d) for d in table)


@dataclass(slots=True)
class Columns:
    """The flat lists a batch is made of, while they grow."""

    prefixes: list[tuple[int, ...]] = field(default_factory=list)
    sequences: list[list[int]] = field(default_factory=list)
    prefix: list[int] = field(default_factory=list)
    trajectory: list[int] = field(default_factory=list)
    offset: list[int] = field(default_factory=list)
    """Of a trained token within its sequence."""
    num_trained: list[int] = field(default_factory=list)
    """Per sequence."""
    row: list[int] = field(default_factory=list)
    engine_logp: list[float] = field(default_factory=list)
    mask: list[int] = field(default_factory=list)


def collate(groups: Sequence[Group]) -> Batch:
    """Pack the trajectories of a step. Raises ValueError where there is nothing to learn from."""
    table = list(decisions(groups))
    columns = Columns()
    row_of = {(d.trajectory, d.turn): row for row, d in enumerate(table)}
    known: dict[tuple[int, tuple[int, ...]], int] = {}
    for d in table:
        if row_of.get((d.trajectory, d.turn - 1)) is None:
            append_trajectory(columns, d, row_of, known)
    if not columns.row:
        raise ValueError("collate: no episode of this step has a sampled token; see how the episodes ended")
    return freeze(columns, table)


def append_trajectory(
    columns: Columns, first: Decision, row_of: dict[tuple[int, int], int], known: dict[tuple[int, tuple[int, ...]], int]
) -> None:
    """Add the sequences of the trajectory whose first row is `first`."""
    context: tuple[int, ...] = ()
    for index, turn in enumerate(first.of.turns):
        prompt = turn.prompt_ids
        if index and prompt[: len(context)] == context:
            columns.sequences[-1].extend(prompt[len(context) :])
        else:
            if not prompt:
                raise ValueError(
                    f"collate: turn {index} of a trajectory of task {first.of.task.id!r} has an empty prompt"
                )
            columns.prefix.append(known.setdefault((first.group, prompt), len(columns.prefixes)))
            if columns.prefix[-1] == len(columns.prefixes):
                columns.prefixes.append(prompt)
            columns.trajectory.append(first.trajectory)
            columns.sequences.append([])
            columns.num_trained.append(0)
        append_completion(columns, turn, row_of.get((first.trajectory, index)))
        context = prompt + turn.completion.token_ids


def append_completion(columns: Columns, turn: Turn, row: int | None) -> None:
    """Extend the last sequence by a completion, trained where it has a row."""
    done, own = turn.completion, columns.sequences[-1]
    if row is not None:
        num = len(done.token_ids)
        columns.offset.extend(range(len(own), len(own) + num))
        columns.row.extend([row] * num)
        columns.engine_logp.extend(done.logprobs)
        columns.mask.extend(done.mask_ids or [-1] * num)
        columns.num_trained[-1] += num
    own.extend(done.token_ids)


def starts(lengths: Sequence[int]) -> Tensor:
    """0, then the running sum."""
    return torch.tensor([0, *lengths]).cumsum(0)


def freeze(columns: Columns, table: Sequence[Decision]) -> Batch:
    start = starts([len(s) for s in columns.sequences])
    num_trained = torch.tensor(columns.num_trained)
    return Batch(
        prefix_ids_P=torch.tensor([i for prefix in columns.prefixes for i in prefix]),
        prefix_start_G=starts([len(prefix) for prefix in columns.prefixes]),
        token_ids_N=torch.tensor([i for sequence in columns.sequences for i in sequence]),
        start_S=start,
        prefix_S=torch.tensor(columns.prefix),
        trajectory_S=torch.tensor(columns.trajectory),
        position_M=torch.tensor(columns.offset) + start[:-1].repeat_interleave(num_trained),
        token_start_S=starts(columns.num_trained),
        row_M=torch.tensor(columns.row),
        engine_logp_M=torch.tensor(columns.engine_logp, dtype=torch.float32),
        mask_M=torch.tensor(columns.mask),
        trajectory_R=torch.tensor([d.trajectory for d in table]),
        group_R=torch.tensor([d.group for d in table]),
        sampled=any(columns.engine_logp),
    )
