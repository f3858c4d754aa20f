"""Rows of a batch: a row is a decision, a turn that its episode sampled itself, with group, trajectory and turn index.

Credit gets the rows as `Rows`, with the learner's values of their tokens, such as log-probs.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import add
from typing import TYPE_CHECKING, Any

from rlx.algo.rows import Rows
from rlx.algo.states import Text, text_before
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


@dataclass(frozen=True, slots=True, kw_only=True)
class GameDecision(Decision):
    """A row of credit, in an episode that may have the turns of several agents."""

    agent: str | None
    """Agent whose rows these are; None where the episode is its own alone."""
    success: bool
    """Success of that agent."""

    @property
    def is_other(self) -> bool:
        """Tell whether another agent took the turn."""
        return self.agent is not None and self.sampled_turn.agent != self.agent

    def earned(self, turn: Turn) -> float:
        """Return what the agent earned in a turn of the episode."""
        is_own = self.agent is None or turn.agent == self.agent
        return turn.reward if is_own else turn.rewards.get(self.agent or "", 0.0)


def decisions(groups: Sequence[Group]) -> Iterator[Decision]:
    """Yield the rows of a batch, in order.

    Episodes that ended in an error say nothing about the policy and are left out; turns that a fork replays are rows of
    its parent.
    """
    for number, (group, trajectory) in enumerate(usable(groups)):
        for turn, sampled in enumerate(trajectory.new_turns, first_new(trajectory)):
            yield Decision(group=group, trajectory=number, turn=turn, sampled_turn=sampled, episode=trajectory)


def usable(groups: Sequence[Group]) -> Iterator[tuple[int, Trajectory]]:
    """Yield the episodes that say something about the policy, each with the number of its group."""
    return ((g, t) for g, group in enumerate(groups) for t in group.trajectories if t.status != "error" and t.turns)


def game_decisions(groups: Sequence[Group]) -> Iterator[GameDecision]:
    """Yield the rows that credit sees, in order: those of `decisions`, and between them, where episodes of several
    agents fork, the turns of other agents. Turns then have their numbers in the game.

    So an agent's tree is the tree of the game: an outcome after which the agent has no turn is a leaf of it, and turns
    that follow other words of another agent were decided in other states.
    """
    forks = any(episode.fork for group in groups for episode in group.trajectories)
    for number, (group, trajectory) in enumerate(usable(groups)):
        game = trajectory.game if forks else None
        episode, agent = (game, trajectory.turns[0].agent) if game else (trajectory, None)
        for turn, sampled in enumerate(episode.new_turns, first_new(episode)):
            yield GameDecision(
                group=group,
                trajectory=number,
                turn=turn,
                sampled_turn=sampled,
                episode=episode,
                agent=agent,
                success=trajectory.success,
            )


def rows(groups: Sequence[Group], batch: Batch) -> Rows:
    """Return the rows that credit sees: `game_decisions`, with the batch's values where they were annotated."""
    table = list(game_decisions(groups))
    num_tokens = tuple(0 if d.is_other else len(d.sampled_turn.completion.token_ids) - num_prefix(d) for d in table)
    linked = list(links(table))
    forks = any(d.episode.fork for d in table)

    def per_token(column_M: Tensor | None) -> tuple[tuple[float, ...], ...]:
        return (
            ()
            if column_M is None
            else tuple(tuple(row_values.tolist()) for row_values in column_M.split(list(num_tokens)))
        )

    return Rows(
        group=tuple(d.group for d in table),
        trajectory=tuple(d.trajectory for d in table),
        turn=tuple(d.turn for d in table),
        parent=tuple(parent for parent, _ in linked),
        reward=tuple(d.earned(d.sampled_turn) for d in table),
        num_tokens=num_tokens,
        success=tuple(d.success for d in table),
        fork=tuple(left for _, left in linked),
        fork_token=tuple(
            d.episode.fork.token if left >= 0 and d.episode.fork and not d.is_other else 0
            for d, (_, left) in zip(table, linked)
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
        value_after=tuple(values[-1] if values else math.nan for values in per_token(batch.old_M.get("value_after"))),
        replayed=tuple(map(earned_before, table)) if forks else (),
        other=tuple(d.is_other for d in table) if any(d.is_other for d in table) else (),
    )


def states(table: Sequence[GameDecision]) -> tuple[int, ...]:
    """Number the states of rows by text (rlx.algo.states), from 0 in the order of the rows. In a turn of another agent
    it matters too what the agent itself has seen and said, which the other one may not know."""
    number: dict[tuple[int, Text, Hashable], int] = {}
    keys = ((d.group, text_before(d.turn, d.sampled_turn, num_prefix(d)), agent_history(d)) for d in table)
    return tuple(number.setdefault(key, len(number)) for key in keys)


def agent_history(d: GameDecision) -> Hashable:
    """Return all tokens of the agent's own last turn before a turn of another agent; None for its own turns."""
    if not d.is_other:
        return None
    past = [turn for turn in d.episode.turns[: d.turn] if turn.agent == d.agent]
    return (past[-1].prompt_ids, past[-1].completion.token_ids) if past else ()


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


def earned_before(d: GameDecision) -> float:
    """Return what the agent earned in the turns that a fork replays, summed as its parent's are; 0 for others."""
    return reduce(add, map(d.earned, d.episode.turns[: first_new(d.episode)]), 0.0)


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
        fork = d.episode.fork if d.turn == first_new(d.episode) else None
        yield find(d.group, d.episode.sample, d.turn - 1), find(d.group, fork.parent, d.turn) if fork else -1


def num_prefix(d: Decision) -> int:
    """Count the leading tokens of the turn that are no part of its trajectory's row: its parent's, and forced ones."""
    fork = d.episode.fork if d.episode.fork and d.turn == d.episode.fork.turn else None
    return 0 if fork is None else fork.token if fork.learned else fork.num_prefix


def num_unknown(d: Decision) -> int:
    """Count the tokens after these whose log-probs nobody knows: forced ones, to be learned from."""
    fork = d.episode.fork
    return len(fork.forced) if fork and fork.learned and d.turn == fork.turn else 0
