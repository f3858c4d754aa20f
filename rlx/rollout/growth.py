"""Samplers at work: the coroutines of a step's tasks, each start with random streams of its own.

What a sampler yields and returns is checked here, and nowhere else: a mistake of its author is one line.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence, Set
from dataclasses import replace
from inspect import isgenerator
from typing import Any, NoReturn, TypeVar

from rlx.algo.entry import Probe
from rlx.algo.parts import Ask, Growth, Player, Sampler
from rlx.algo.samplers import SamplerError, group_by_task, ids
from rlx.rollout.episode import RepeatCounts, number_repeats
from rlx.types import Group, Start, Task, Trajectory

T = TypeVar("T")

Growing = Generator[Ask, Any, T]
"""Coroutine that a stage drives, whatever it returns."""


def all_at_once(starts: Sequence[Start]) -> Growing[list[Trajectory]]:
    """All of these, and nothing after them."""
    return (yield Ask(starts=starts, wait=len(starts)))


def sample_flat(player: Player, sampler: Sampler, tasks: Sequence[Task]) -> list[Group]:
    """The groups of a sampler whose starts are known."""
    if sampler.expert:
        return group_by_task(tasks, player.demonstrate(tasks), 1)
    num = sampler.num_episodes
    return group_by_task(tasks, player.play([Start(task=task, sample=i) for task in tasks for i in range(num)]), num)


def growths(
    grow: Callable[[Task, int], Growth], tasks: Sequence[Task], repeats: RepeatCounts, watches: bool
) -> list[Growing[Group]]:
    """Begin the sampler's coroutine on every task. A task that comes again in a step has other random streams."""
    starts = number_repeats([Start(task=task, sample=0) for task in tasks], repeats)
    return [number_starts(grow(start.task, start.repeat), start.task, start.repeat, watches) for start in starts]


def number_starts(growth: Growth, task: Task, repeat: int, watches: bool) -> Growing[Group]:
    """Return the same growth with starts that say how often its task came before; SamplerError for a wrong request."""
    if not isinstance(growth, Generator):
        refuse(task, f"it gave {kind(growth)} at once; yield lists of starts, then return the Group")
    begun: set[int] = set()
    apart: set[int] = set()
    num_waiting = 0
    try:
        asked: Any = next(growth)
        while True:
            starts = set_repeats(asked.starts if isinstance(asked, Ask) else asked, task, repeat, begun)
            if not watches:
                check_watched(task, starts, growth.gi_code.co_qualname if isgenerator(growth) else kind(growth))
            apart |= {one.sample for one in starts if isinstance(one, Start) and one.sampling is not None}
            num_waiting += len(starts)
            wait = asked.wait if isinstance(asked, Ask) else num_waiting
            check_wait(task, wait, num_waiting)
            num_waiting -= wait
            asked = growth.send((yield Ask(starts=starts, wait=wait)))
    except StopIteration as end:
        if num_waiting:
            refuse(task, f"it returned while {num_waiting} of its episodes were under way; wait for them first")
        return check_group(task, end.value, apart)


def set_repeats(starts: Any, task: Task, repeat: int, begun: set[int]) -> Sequence[Start | Probe]:
    """Return the same starts with the number of repetitions; probes as they are."""
    if are_probes(starts):
        return list(starts)
    check_starts(task, starts, begun)
    return [replace(start, repeat=repeat) for start in starts]


def are_probes(asked: Any) -> bool:
    """Tell whether a sampler asks the policy for log-probs, and for no episodes."""
    return isinstance(asked, Sequence) and bool(asked) and all(isinstance(one, Probe) for one in asked)


def check_wait(task: Task, wait: Any, num_waiting: int) -> None:
    """Refuse to wait for more episodes than are under way, or for none where some are."""
    if not isinstance(wait, int) or not min(1, num_waiting) <= wait <= num_waiting:
        refuse(task, f"wait={wait!r:.40}: expected an integer from {min(1, num_waiting)} to {num_waiting}")


def check_watched(task: Task, starts: Sequence[Start | Probe], sampler: str) -> None:
    """Refuse what the checks before a run did not know of: not every engine can tell it."""
    if any(isinstance(start, Start) and (start.watch or start.entropy_of) for start in starts):
        refuse(task, f"{sampler:.80} asks for `watch` or `entropy_of` undeclared; give its Sampler watches=True")


def check_starts(task: Task, starts: Any, begun: set[int]) -> None:
    """Refuse what is no list of starts of this task, each with a number that is not among those `begun`: two episodes
    of a number would draw the same random numbers."""
    if not isinstance(starts, Sequence) or not all(isinstance(start, Start) for start in starts):
        refuse(task, f"it yielded {kind(starts)}; yield a list of Starts, or an Ask")
    for start in starts:
        if start.task != task:
            refuse(task, f"it started task {start.task.id!r:.60}; play the one it is given")
        if start.sample in begun:
            refuse(task, f"sample {start.sample} of task {task.id!r:.60} was begun twice; count from 0")
        ids("watch", start.watch)
        if not isinstance(start.entropy_of, int) or start.entropy_of < 0:
            refuse(task, f"entropy_of={start.entropy_of!r:.40}: expected an integer from 0")
        begun.add(start.sample)


def check_group(task: Task, group: Any, apart: Set[int] = frozenset()) -> Group:
    """Return what a sampler returned, if it is a group that has the parents of its forks: their turns before are rows
    of these, by which credit knows a tree. What shall not be trained, credit leaves out by `keep`."""
    if not isinstance(group, Group):
        refuse(task, f"it returned {kind(group)}; return the Group")
    samples = {one.sample for one in group.trajectories}
    if samples & apart:
        refuse(task, f"sample {min(samples & apart)} has sampling of its own, which nobody trains; leave it out")
    for one in group.trajectories:
        if one.fork is not None and one.fork.parent not in samples:
            left = f"sample {one.sample} is a fork of sample {one.fork.parent}, which the Group lacks"
            refuse(task, f"{left}; return it too, and have credit keep what shall be trained")
    return group


def kind(given: Any) -> str:
    """Name a value's type, in a word or two."""
    if isinstance(given, list | tuple):
        return f"a {type(given).__name__} of {', '.join(sorted({type(one).__name__ for one in given})) or 'nothing'}"
    return "nothing" if given is None else f"a {type(given).__name__}"


def refuse(task: Task, told: str) -> NoReturn:
    raise SamplerError(f"sampler, task {task.id!r:.60}: {told}")
