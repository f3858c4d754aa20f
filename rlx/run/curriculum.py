"""Choose the tasks of a step: the next of the environment's stream, or of those parts that its curriculum chooses.

The state of a curriculum changes once a step, by the groups of that step. A step's tasks are chosen as it is launched.
So tasks depend only on the seed and on the steps that were learned from by then: with one process or many, ahead of the
updates or not, and after a kill, when the streams begin again behind the groups that were played.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice

from rlx.algo.parts import as_json
from rlx.base.limits import MistakeError
from rlx.environment import Curriculum, CurriculumState
from rlx.environment.world import parts_of
from rlx.run.run import Run
from rlx.types import Group, Metrics, Task


class TaskError(MistakeError):
    """Tasks that a run cannot have; the message is one line with the remedy."""


def curriculum_of(run: Run) -> Curriculum | None:
    """Return the environment's curriculum; None also where an expert plays, who always succeeds."""
    return None if run.algo.imitates else run.env.curriculum


def begin(run: Run) -> CurriculumState:
    curriculum = curriculum_of(run)
    return {} if curriculum is None else as_json(curriculum.begin())


def adapt(run: Run, state: CurriculumState, groups: Sequence[Group]) -> CurriculumState:
    """Return the state after a step."""
    curriculum = curriculum_of(run)
    return state if curriculum is None else as_json(curriculum.adapt(state, groups))


def tell(run: Run, state: CurriculumState) -> Metrics:
    curriculum = curriculum_of(run)
    return {} if curriculum is None else curriculum.tell(state)


def open_tasks(
    run: Run, first: int, played: Mapping[int, Sequence[Group]], read_state: Callable[[], CurriculumState]
) -> Callable[[int], list[Task]]:
    """The tasks of each step from `first` on that is not `played` already, asked for in order."""
    curriculum, size = curriculum_of(run), run.algo.num_prompts
    if curriculum is None:
        tasks = islice(run.env.tasks("train", run.seed), (first + len(played)) * size, None)
        return lambda step: require_all(list(islice(tasks, size)), step, size)
    ahead = Counter(group.task.env for groups in played.values() for group in groups)
    streams = {
        part: open_part(run, part, num + ahead[part]) for part, num in curriculum.num_tasks(read_state()).items()
    }
    return lambda step: [next(streams[part]) for part in curriculum.choose(read_state(), size, run.seed, step)]


def require_all(tasks: list[Task], step: int, size: int) -> list[Task]:
    """Return a step's tasks; TaskError where some are missing."""
    if len(tasks) < size:
        have = f"its train tasks have ended: {len(tasks)} are left for step {step + 1}, which has {size}"
        raise TaskError(f"env: {have}; let tasks('train') go on, with the same ones again if need be")
    return tasks


def open_part(run: Run, part: str, start: int) -> Iterator[Task]:
    """A part's tasks, from its number `start` on."""
    for task in islice(parts_of(run.env)[part].tasks("train", run.seed), start, None):
        yield replace(task, env=part)
    raise TaskError(f"env.parts.{part}.env: its train tasks have ended; a curriculum may ask for any number")
