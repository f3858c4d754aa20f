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
"""Coroutine that the scheduler drives, whatever it returns."""

MOST_EMPTY = 1000
"""Requests in a row that a sampler may make for nothing, before it is taken for one that never ends."""


def all_at_once(starts: Sequence[Start]) -> Growing[list[Trajectory]]:
    """Grow by one request for all of these starts; return their trajectories."""
    return (yield Ask(starts=starts, wait=len(starts)))


def sample_flat(player: Player, sampler: Sampler, tasks: Sequence[Task]) -> list[Group]:
    """Return the groups of a sampler without a coroutine, whose starts are known beforehand."""
    if sampler.expert:
        return group_by_task(tasks, player.demonstrate(tasks), 1)
    num = sampler.num_episodes
    return group_by_task(tasks, player.play([Start(task=task, sample=i) for task in tasks for i in range(num)]), num)


def growths(
    sampler: Sampler, grow: Callable[[Task, int], Growth], tasks: Sequence[Task], repeats: RepeatCounts
) -> list[Growing[Group]]:
    """Begin the sampler's coroutine on every task, by `grow`. A task that comes again in a step has other random
    streams."""
    starts = number_repeats([Start(task=task, sample=0) for task in tasks], repeats)
    return [number_starts(grow(start.task, start.repeat), start.task, start.repeat, sampler) for start in starts]


def number_starts(growth: Growth, task: Task, repeat: int, sampler: Sampler) -> Growing[Group]:
    """Drive a sampler's coroutine: number its starts by how often its task came before, and validate its requests and
    its group. SamplerError for a mistake."""
    if not isinstance(growth, Generator):
        refuse(task, f"it gave {kind(growth)} at once; yield lists of starts, then return the Group")
    begun: dict[int, Start] = {}
    num_waiting = num_empty = 0
    try:
        demand: Any = next(growth)
        while True:
            starts = set_repeats(demand.starts if isinstance(demand, Ask) else demand, task, repeat, begun)
            check_number(task, len(begun), sampler)
            if not sampler.watches:
                check_watched(task, starts, growth.gi_code.co_qualname if isgenerator(growth) else kind(growth))
            num_waiting += len(starts)
            wait = demand.wait if isinstance(demand, Ask) else num_waiting
            check_wait(task, wait, num_waiting)
            num_waiting -= wait
            num_empty = 0 if wait else num_empty + 1
            check_empty(task, num_empty)
            # answered here: a scheduler that is asked for nothing calls itself for the next request
            demand = growth.send((yield Ask(starts=starts, wait=wait)) if wait else [])
    except StopIteration as end:
        if num_waiting:
            refuse(task, f"it returned while {num_waiting} of its episodes were under way; wait for them first")
        return check_group(task, end.value, {start.sample for start in begun.values() if start.sampling is not None})


def set_repeats(starts: Any, task: Task, repeat: int, begun: dict[int, Start]) -> Sequence[Start | Probe]:
    """Validate the starts, and return them with the number of repetitions; probes as they are."""
    if are_probes(starts):
        return list(starts)
    check_starts(task, starts, begun)
    return [replace(start, repeat=repeat) for start in starts]


def are_probes(demand: Any) -> bool:
    """Tell whether a sampler asks the policy for log-probs, and for no episodes."""
    return isinstance(demand, Sequence) and bool(demand) and all(isinstance(probe, Probe) for probe in demand)


def check_wait(task: Task, wait: Any, num_waiting: int) -> None:
    """Refuse to wait for more episodes than are under way, or for none where some are."""
    if not isinstance(wait, int) or not min(1, num_waiting) <= wait <= num_waiting:
        limits = f"expected an integer from {min(1, num_waiting)} to {num_waiting}"
        refuse(task, f"wait={wait!r:.40}: {limits}, the number of episodes under way")


def check_empty(task: Task, num: int) -> None:
    """Refuse a sampler that asks for nothing again and again: it would never end."""
    if num > MOST_EMPTY:
        refuse(task, f"it asked for nothing {num} times in a row; yield starts, or return the Group")


def check_watched(task: Task, starts: Sequence[Start | Probe], sampler: str) -> None:
    """Refuse what the checks before a run did not know of: not every engine can tell it."""
    if any(isinstance(start, Start) and (start.watch or start.entropy_of) for start in starts):
        refuse(task, f"{sampler:.80} asks for `watch` or `entropy_of` undeclared; give its Sampler watches=True")


def check_starts(task: Task, starts: Any, begun: dict[int, Start]) -> None:
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
        check_fork(task, start)
        begun[start.sample] = start


def check_fork(task: Task, start: Start) -> None:
    """Refuse a fork at a place that its prefix lacks, such as `leave` never makes."""
    if start.fork is None:
        return
    turn, num, turns = start.fork.turn, start.fork.token, len(start.prefix)
    if not 0 <= turn <= turns:
        refuse(
            task, f"sample {start.sample} forks at turn {turn}, and its prefix has {turns} turns; make it by `leave`"
        )
    tokens = len(start.prefix[turn].completion.token_ids) if turn < turns else 0
    if not 0 <= num <= tokens:
        refuse(task, f"sample {start.sample} forks at token {num} of a turn of {tokens}; make it by `leave`")


def check_number(task: Task, num: int, sampler: Sampler) -> None:
    """Refuse more episodes than the sampler declares: plans count by these numbers, and a sampler that never ends
    passes them. Fresh ones and forks are counted together, as a sampler may begin some in place of others."""
    if num > sampler.num_episodes + sampler.num_forks:
        declared = f"its Sampler has num_episodes={sampler.num_episodes} and num_forks={sampler.num_forks}"
        refuse(task, f"it began {num} episodes, and {declared}; begin fewer, or declare more")


def check_group(task: Task, group: Any, apart: Set[int] = frozenset()) -> Group:
    """Validate the sampler's group: the parent of every fork must be in it, because the fork's earlier turns are rows
    of the parent. Credit's `keep` leaves out episodes that shall not be trained."""
    if not isinstance(group, Group):
        refuse(task, f"it returned {kind(group)}; return the Group")
    if not group.trajectories:
        refuse(task, "it returned a Group without trajectories; return those that were played")
    samples = {trajectory.sample for trajectory in group.trajectories}
    if samples & apart:
        refuse(task, f"sample {min(samples & apart)} has sampling of its own, which nobody trains; leave it out")
    for trajectory in group.trajectories:
        if trajectory.fork is not None and trajectory.fork.parent not in samples:
            left = f"sample {trajectory.sample} is a fork of sample {trajectory.fork.parent}, which the Group lacks"
            refuse(task, f"{left}; return it too, and have credit keep what shall be trained")
    return group


def kind(value: Any) -> str:
    """Name a value's type, in a word or two."""
    if isinstance(value, list | tuple):
        return (
            f"a {type(value).__name__} of {', '.join(sorted({type(member).__name__ for member in value})) or 'nothing'}"
        )
    name = type(value).__name__
    return "nothing" if value is None else f"{'an' if name[0] in 'aeiouAEIOU' else 'a'} {name}"


def refuse(task: Task, problem: str) -> NoReturn:
    raise SamplerError(f"sampler, task {task.id!r:.60}: {problem}")
