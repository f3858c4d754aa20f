"""Branches near the end of episodes, taken until one contrasts with its episode (BranPO's sampler).

    episode   turn 0  turn 1 | turn 2  turn 3   right.
    branch    turn 0  turn 1 | again   again    wrong, and kept.

A branch continues from its episode's turns before it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rlx.algo.forks import leave_out, usable
from rlx.algo.parts import Growth, Sampler, SamplerContext
from rlx.algo.samplers import leave
from rlx.types import Group, Start, Trajectory

MOST = 6
"""The most branches that a rule tries for one episode."""
LEAST_MARGIN = 0.1
"""Turns above the mean of the right episodes from which a right one is long."""


@dataclass(frozen=True, slots=True)
class Outcomes:
    """Results of a task's fresh episodes."""

    threshold: float
    share: float
    """Share of right episodes."""
    mean_turns: float
    """Mean number of turns of the right ones."""

    def is_right(self, episode: Trajectory) -> bool:
        return episode.reward >= self.threshold

    @property
    def is_mixed(self) -> bool:
        """Flag of tasks that more than half of the episodes, but not all, got right."""
        return 0.5 < self.share < 1


def outcomes_of(episodes: Sequence[Trajectory], threshold: float) -> Outcomes:
    """Return the share of right episodes, and their mean number of turns."""
    right = [len(episode.turns) for episode in episodes if episode.reward >= threshold]
    return Outcomes(threshold, len(right) / max(1, len(episodes)), sum(right) / max(1, len(right)))


def turns_back(episode: Trajectory, task: Outcomes) -> list[int]:
    """Return how many of the last turns each try takes again, by the first rule that holds."""
    right, p = task.is_right(episode), task.share
    if task.is_mixed and right and len(episode.turns) - task.mean_turns >= LEAST_MARGIN:
        return [2] * 5
    if p == 1:
        return [1]
    if p < 0.5 and not right:
        return [1, 1, 2, 2, 3, 3]
    return [1, 1, 2, 2] if p <= 0.75 or not right else []


def contrasts(episode: Trajectory, branch: Trajectory, task: Outcomes) -> bool:
    """Tell whether a branch crosses the threshold, or is right in another number of turns where outcomes are mixed."""
    if branch.status == "error":
        return False
    if task.is_right(episode) != task.is_right(branch):
        return True
    return task.is_mixed and task.is_right(episode) and len(episode.turns) != len(branch.turns)


def is_sound(episode: Trajectory) -> bool:
    """Tell whether an episode ended by itself with a turn that was valid."""
    return episode.status == "done" and not episode.turns[-1].is_invalid


@dataclass(slots=True)
class Chain:
    """A fresh episode and the tries that it still has."""

    episode: Trajectory
    backs: list[int]
    """Turns to take again, in order."""

    def next_turn(self) -> int:
        """Take the next try, and return the turn at which it forks."""
        return max(0, len(self.episode.turns) - self.backs.pop(0))


def until_contrast(num_samples: int, threshold: float) -> Sampler:
    """`num_samples` fresh episodes, and for each up to six branches, one after another until one contrasts."""

    def grow(context: SamplerContext) -> Growth:
        played: list[Trajectory] = list((yield [Start(task=context.task, sample=i) for i in range(num_samples)]))
        task = outcomes_of(usable(played), threshold)
        chains = [Chain(episode, turns_back(episode, task)) for episode in usable(played) if is_sound(episode)]
        spare: set[int] = set()
        while chains := [chain for chain in chains if chain.backs]:
            starts = [
                leave(chain.episode, sample=len(played) + i, turn=chain.next_turn()) for i, chain in enumerate(chains)
            ]
            branches = yield starts
            played += branches
            for chain, branch in zip(chains, branches, strict=True):
                if contrasts(chain.episode, branch, task):
                    chain.backs.clear()
                else:
                    spare.add(branch.sample)
        return Group(task=context.task, trajectories=tuple(leave_out(played, spare)))

    return Sampler(num_episodes=num_samples, num_forks=MOST * num_samples, grow=grow)
