"""Play a step's tasks in waves, until its episodes have a number of turns together.

GEM (Liu et al. 2025, arXiv:2510.01051) counts a batch in transitions, which are turns. An episode is played to its end,
so the last one may go beyond the number. Which tasks are played depends on turns alone, never on the clock.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import accumulate

from rlx.algo.parts import Player, Sampler
from rlx.types import Group, Task

FIRST = 8
"""Turns of an episode that the first wave reckons with: more waves follow where episodes are shorter."""


def sample_turns(player: Player, sampler: Sampler, tasks: Sequence[Task], num_turns: int | None) -> list[Group]:
    """Play the first tasks that have `num_turns` turns together, and return their groups; None plays all tasks."""
    if num_turns is None:
        return player.sample(sampler, tasks)
    groups: list[Group] = []
    while len(groups) < len(tasks) and (missing := num_turns - count_turns(groups)) > 0:
        size = wave(groups, missing)
        groups += player.sample(sampler, tasks[len(groups) : len(groups) + size])
    return groups[: enough(groups, num_turns)]


def num_dropped(groups: Sequence[Group], num_tasks: int, num_turns: int) -> int:
    """Return the number of tasks that were played and dropped: those of the last wave behind the groups that stayed.

    The groups alone tell it, so it is the same for groups that were played ahead and read from a checkpoint.
    """
    played = 0
    while played < num_tasks and (missing := num_turns - count_turns(groups[:played])) > 0:
        played = min(num_tasks, played + wave(groups[:played], missing))
    return played - len(groups)


def wave(groups: Sequence[Group], missing: int) -> int:
    """Return how many tasks to play next: as many as would have the missing turns, by the mean of those played."""
    turns_per_task = count_turns(groups) / len(groups) if groups else FIRST
    return max(1, math.ceil(missing / max(1.0, turns_per_task)))


def count_turns(groups: Sequence[Group]) -> int:
    return sum(map(turns_of, groups))


def turns_of(group: Group) -> int:
    return sum(len(episode.turns) for episode in group.trajectories)


def enough(groups: Sequence[Group], num_turns: int) -> int:
    """Return how many groups, in order, have the turns together; all where they have fewer."""
    reached = [total >= num_turns for total in accumulate(map(turns_of, groups))]
    return reached.index(True) + 1 if any(reached) else len(groups)
