"""Warnings about an environment's tasks before training: an expert that earns nothing, and test tasks among those of
training."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import islice

from rlx.environment import Environment
from rlx.environment.dialect import Dialect
from rlx.environment.expert import DemonstrationError, demonstration
from rlx.environment.world import cost_of
from rlx.run.run import Run
from rlx.types import Task

NUM_TASKS = 2
"""Tasks that the expert is tried on."""
NUM_COMPARED = 64
"""Training tasks that are compared with the test tasks: one in twenty that is both is found with 96% probability."""


def task_warnings(run: Run, name: str, env: Environment) -> Iterator[str]:
    """Yield what is wrong with the tasks of an environment, which is the part `name` of a mixture if it has a name."""
    where = f"env {name}" if name else "env"
    tasks = [replace(task, env=name) for task in islice(env.tasks("train", run.seed), NUM_COMPARED)]
    if tasks and not any(is_earned(env, run.dialects[name], task, run.seed) for task in tasks[:NUM_TASKS]):
        yield (
            f"{where}: the expert solves none of the first {len(tasks[:NUM_TASKS])} training tasks and earns no reward "
            "in them: look at it with `rlx play … --expert`"
        )
    test_ids = {task.id for task in islice(env.tasks("test", run.evaluate.seed), run.evaluate.num_tasks)}
    if both := [task.id for task in tasks if task.id in test_ids]:
        yield (
            f"{where}: {len(both)} of {len(tasks)} training tasks are test tasks too, such as {both[0]!r:.60}; "
            "an evaluation does not tell what was learned from what was remembered; keep tasks('test') apart"
        )


def is_earned(env: Environment, dialect: Dialect, task: Task, seed: int) -> bool:
    """Tell whether the expert solves a task or earns a reward in it; true where there is no expert, or none that this
    protocol suits."""
    if not env.has_expert:
        return True
    try:
        steps = [expert_move.step for expert_move in demonstration(env, dialect, task, seed)[1]]
    except DemonstrationError:
        return True
    return any(step.success for step in steps) or sum(step.reward - cost_of(env, step.tool) for step in steps) > 0
