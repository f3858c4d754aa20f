"""Places in an instruction, filled for each task: the goal and the declared actions.

    You are an agent. Your goal is to {goal}.      You are an agent. Your goal is to go to the red ball.
    {actions}                                      - turn left
                                                   - go forward

Such an instruction is a system message. One with {goal} tells the task in its own words, so the task's prompt is left
out. The goal is `Task.data["goal"]`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from rlx.base.limits import MistakeError
from rlx.types import Task, Verb

GOAL, ACTIONS = "{goal}", "{actions}"
PLACE = re.compile(r"\{(?:goal|actions)\}")


def has_places(instruction: str | None) -> bool:
    """Tell whether an instruction has a place to fill."""
    return instruction is not None and PLACE.search(instruction) is not None


def goal_of(task: Task) -> str:
    """Return the goal alone, `data["goal"]`; empty if the task tells none."""
    goal = task.data.get("goal")
    return goal if isinstance(goal, str) else ""


def fill(instruction: str, task: Task, declared: Sequence[Verb]) -> str:
    """Return the instruction of a task; MistakeError if the environment has nothing for one of its places."""
    values = {GOAL: goal_of(task), ACTIONS: "\n".join(f"- {spell(verb)}" for verb in declared)}
    if GOAL in instruction and not values[GOAL]:
        where = f"part {task.env!r:.60} of the environment" if task.env else "the environment"
        why = f"{where} has a task without a goal (task.data['goal'])"  # not its id, which may be the answer
        raise MistakeError(f"protocol.instruction: {why}: leave {GOAL} out, or choose another protocol")
    if ACTIONS in instruction and not declared:
        raise MistakeError(f"protocol.instruction: the environment declares no actions: leave {ACTIONS} out")
    return replace_places(instruction, values)


def replace_places(text: str, values: Mapping[str, str]) -> str:
    """Replace the places in one pass, so that a goal with braces stays as it is."""
    return PLACE.sub(lambda place: values.get(place[0], place[0]), text)


def spell(verb: Verb) -> str:
    """Return an action as an instruction names it: its words, and its argument in capitals."""
    return f"{verb.words} {verb.argument.upper()}".strip()
