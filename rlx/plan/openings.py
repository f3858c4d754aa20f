"""Open the first episode of a task, as a run's player will: the environment's first step, and the first prompt."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from rlx.environment import Environment
from rlx.environment.agents import brief
from rlx.environment.dialect import Dialect
from rlx.environment.world import lawful, open_episode, part_of, trained_parts
from rlx.protocol.history import first_prompt
from rlx.types import Step, Task


@dataclass(frozen=True, slots=True, kw_only=True)
class Opening:
    """Beginning of an episode."""

    task: Task
    env: Environment
    """Part that the task is of."""
    step: Step
    """First step of the episode."""
    prompt: str


def first_tasks(env: Environment, seed: int) -> Iterator[Task]:
    """Yield the first task of each endless stream: of every part that is trained on."""
    for name, part in trained_parts(env).items():
        task = next(part.tasks("train", seed), None)
        if task is None:
            raise ValueError("tasks('train') gives no task")
        yield replace(task, env=name)


def open_task(env: Environment, dialects: Mapping[str, Dialect], task: Task) -> Opening:
    """Open an episode, and write the first prompt of the agent that begins."""
    part = part_of(env, task)
    step = first_step(part, task)
    briefing = brief(part, task, step.next_agent)
    return Opening(task=task, env=part, step=step, prompt=first_prompt(dialects[task.env], briefing, step.observation))


def first_step(env: Environment, task: Task) -> Step:
    """Return the first step of an episode."""
    with open_episode(env, task) as episode:
        return lawful(env, episode.opening())
