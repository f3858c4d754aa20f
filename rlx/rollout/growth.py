"""Samplers at work: the coroutines of a step's tasks, each start with random streams of its own."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Generator, Sequence
from dataclasses import replace
from typing import TypeVar

from rlx.algo.parts import Flat, Growth, Player, grouped
from rlx.rollout.episode import Seen, tell_apart
from rlx.types import Group, Start, Task, Trajectory

T = TypeVar("T")

Growing = Generator[Sequence[Start], list[Trajectory], T]
"""A growth, whatever it returns."""


def all_at_once(starts: Sequence[Start]) -> Growing[list[Trajectory]]:
    """All of these, and nothing after them."""
    return (yield starts)


def sample_flat(player: Player, sampler: Flat, tasks: Sequence[Task]) -> list[Group]:
    """The groups of a sampler whose starts are known."""
    if sampler.expert:
        return grouped(tasks, player.demonstrate(tasks), 1)
    num = sampler.num_samples
    return grouped(tasks, player.play([Start(task=task, sample=i) for task in tasks for i in range(num)]), num)


def growths(sampler: Callable[[Task], Growth], tasks: Sequence[Task], seen: Seen) -> list[Growth]:
    """The sampler at work on every task; a task that comes again in a step has other random streams."""
    told = tell_apart([Start(task=task, sample=0) for task in tasks], seen)
    return [told_apart(sampler(start.task), start.repeat) for start in told]


def told_apart(growth: Growth, repeat: int) -> Growth:
    """The same growth with starts that say how often its task came before. Refuses a sample that it began before."""
    begun: Counter[int] = Counter()
    try:
        starts = next(growth)
        while True:
            begun.update(start.sample for start in starts)
            refuse_twins(begun, starts)
            starts = growth.send((yield [replace(start, repeat=repeat) for start in starts]))
    except StopIteration as end:
        return end.value


def refuse_twins(begun: Counter[int], starts: Sequence[Start]) -> None:
    """ValueError for a sample number that came before: two episodes would draw the same random numbers."""
    for start in starts:
        if begun[start.sample] > 1:
            raise ValueError(f"sampler: sample {start.sample} of task {start.task.id!r} was begun twice; count from 0")
