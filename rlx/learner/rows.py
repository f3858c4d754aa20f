"""The rows of a batch: a decision each, which is a turn that an episode of its own sampled, and where it stands.

Credit sees them as `Rows`, with what the learner computed of their tokens.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import add
from typing import TYPE_CHECKING, Any

from rlx.algo.rows import Rows
from rlx.types import Group, Part, Trajectory, Turn

if TYPE_CHECKING:
    from torch import Tensor

    from rlx.learner.batch import Batch


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """One row: a turn, and where it stands. Trajectories are numbered over the batch."""

    group: int
    trajectory: int
    turn: int
    """Number of the turn in its episode, from 0."""
    sampled_turn: Turn
    episode: Trajectory


def decisions(groups: Sequence[Group]) -> Iterator[Decision]:
    """Yield the rows of a batch, in order.

    Episodes that ended in an error say nothing about the policy and are left out; turns that a fork replays are rows of
    its parent.
    """
    kept = ((g, t) for g, group in enumerate(groups) for t in group.trajectories if t.status != "error" and t.turns)
    for number, (group, trajectory) in enumerate(kept):
        for turn, sampled in enumerate(trajectory.new_turns, first_new(trajectory)):
            yield Decision(group=group, trajectory=number, turn=turn, sampled_turn=sampled, episode=trajectory)


def rows(groups: Sequence[Group], batch: Batch) -> Rows:
    """Return the rows that credit sees: one per decision, with the batch's values where they were annotated."""
    table = list(decisions(groups))
    num_tokens = tuple(len(d.sampled_turn.completion.token_ids) - num_prefix(d) for d in table)
    linked = list(links(table))

    def per_token(column_M: Tensor | None) -> tuple[tuple[float, ...], ...]:
        return () if column_M is None else tuple(tuple(own.tolist()) for own in column_M.split(list(num_tokens)))

    return Rows(
        group=tuple(d.group for d in table),
        trajectory=tuple(d.trajectory for d in table),
        turn=tuple(d.turn for d in table),
        parent=tuple(parent for parent, _ in linked),
        reward=tuple(d.sampled_turn.reward for d in table),
        num_tokens=num_tokens,
        success=tuple(d.episode.success for d in table),
        fork=tuple(left for _, left in linked),
        fork_token=tuple(
            d.episode.fork.token if left >= 0 and d.episode.fork else 0 for d, (_, left) in zip(table, linked)
        ),
        status=tuple(d.episode.status for d in table),
        env=tuple(d.episode.task.env for d in table),
        state=states(table),
        observation=observations(table),
        invalid=tuple(d.sampled_turn.is_invalid for d in table),
        spare=tuple(d.episode.spare for d in table) if any(d.episode.spare for d in table) else (),
        logp=per_token(batch.old_logp_M),
        reference_logp=per_token(batch.reference_M.get("logp")),
        value=per_token(batch.old_M.get("value")),
        value_after=tuple(own[-1] if own else math.nan for own in per_token(batch.old_M.get("value_after"))),
        replayed=tuple(earned_before(d.episode) for d in table) if any(d.episode.fork for d in table) else (),
    )


def states(table: Sequence[Decision]) -> tuple[int, ...]:
    """Number the states of rows, from 0 in the order of the rows: a group, and all tokens before the decision."""
    number: dict[tuple[int, tuple[int, ...], tuple[int, ...]], int] = {}
    keys = ((d.group, d.sampled_turn.prompt_ids, prefix_ids(d)) for d in table)
    return tuple(number.setdefault(key, len(number)) for key in keys)


def observations(table: Sequence[Decision]) -> tuple[int, ...]:
    """Number the observations that rows answer, from 0 in the order of the rows; a summary answers apart from turns."""
    number: dict[tuple[Any, ...], int] = {}
    keys = ((d.group, seen_before(d), d.sampled_turn.action.kind == "summary", prefix_ids(d)) for d in table)
    return tuple(number.setdefault(key, len(number)) for key in keys)


def seen_before(d: Decision) -> tuple[Part, ...] | None:
    """Return the environment's last observation before a turn; at an episode's start its opening, or None."""
    past = [turn.observation for turn in d.episode.turns[: d.turn] if turn.action.kind != "summary"]
    return past[-1] if past else d.episode.opening or None


def prefix_ids(d: Decision) -> tuple[int, ...]:
    """Return the leading tokens of the turn that are no part of its trajectory's row."""
    return d.sampled_turn.completion.token_ids[: num_prefix(d)]


def earned_before(trajectory: Trajectory) -> float:
    """Return the reward of the turns that a fork replays, summed as its parent's are; 0 for others."""
    return reduce(add, (turn.reward for turn in trajectory.turns[: first_new(trajectory)]), 0.0)


def first_new(trajectory: Trajectory) -> int:
    """Return the number of the first turn that is not replayed."""
    return trajectory.fork.turn if trajectory.fork else 0


def links(table: Sequence[Decision]) -> Iterator[tuple[int, int]]:
    """Yield the columns `parent` and `fork` of Rows, row by row; -1 where there is no such row."""
    row_of = {(d.group, d.episode.sample, d.turn): row for row, d in enumerate(table)}
    fork_of = {(d.group, d.episode.sample): d.episode.fork for d in table}

    def find(group: int, sample: int, turn: int) -> int:
        """Return the row of a turn of this sample's episode: its own, or its parent's if the turn is replayed."""
        fork = fork_of.get((group, sample))
        return find(group, fork.parent, turn) if fork and turn < fork.turn else row_of.get((group, sample, turn), -1)

    for d in table:
        fork, is_first = d.episode.fork, d.turn == first_new(d.episode)
        row = find(d.group, fork.parent, d.turn) if fork and is_first else -1
        # after another agent's other turn a fork has another prompt
        is_same = row >= 0 and table[row].sampled_turn.prompt_ids == d.sampled_turn.prompt_ids
        yield find(d.group, d.episode.sample, d.turn - 1), row if is_same else -1


def num_prefix(d: Decision) -> int:
    """Count the leading tokens of the turn that are no part of its trajectory's row: its parent's, and forced ones."""
    fork = d.episode.fork if d.episode.fork and d.turn == d.episode.fork.turn else None
    return 0 if fork is None else fork.token if fork.learned else fork.num_prefix


def num_unknown(d: Decision) -> int:
    """Count the tokens after these whose log-probs nobody knows: forced ones, to be learned from."""
    fork = d.episode.fork
    return len(fork.forced) if fork and fork.learned and d.turn == fork.turn else 0
