"""Demonstrations of Countdown: traces that recover from wrong candidates, and random tries.

The staged traces are those of "Cost-Aware Tool-Integrated Reasoning for Countdown Arithmetic", section 3.3, word for
word.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from math import isclose

from rlx.env.countdown.expression import Candidate, compute, random_candidate, random_expressions
from rlx.env.countdown.solver import solutions
from rlx.types import Action, Move, Task

FIRST = "I will use Python as a tool to verify a candidate arithmetic expression."
WRONG = (
    "The observation is {value}. Since {value} != {target}, it does not match the target.\n"
    "I need to try a different expression."
)
RIGHT = "The observation is {value}. Since {value} == {target}, it exactly equals the target."
ROUNDED = "The observation is {value}. Up to rounding it equals {target}."
TEXT_WRONG = "{text} = {value}, which is not {target}."
TEXT_RIGHT = "{text} = {value}, which equals the target."


def right_candidate(task: Task, rng: random.Random) -> Candidate:
    """A solution, and what Python computes for it: the target itself where some solution has it so."""
    numbers, target = task.data["numbers"], task.data["target"]
    candidates = [Candidate(text, compute(text, numbers)) for text in solutions(numbers, target, rng.getrandbits(32))]
    if not candidates:
        raise ValueError(f"countdown: {task.id} has no solution to demonstrate")
    return rng.choice([candidate for candidate in candidates if candidate.value == target] or candidates)


def wrong_candidates(task: Task, num: int, rng: random.Random) -> list[Candidate]:
    """Up to `num` candidates of distinct values, none the target; one in ten may divide with a rest."""
    candidates_by_value: dict[float, Candidate] = {}
    for _ in range(20 * num):
        if len(candidates_by_value) == num:
            break
        candidate = random_candidate(task.data["numbers"], rng, exact=rng.random() < 0.9)
        if not isclose(candidate.value, task.data["target"], rel_tol=1e-9):
            candidates_by_value.setdefault(candidate.value, candidate)
    return list(candidates_by_value.values())


def stage_moves(candidates: Sequence[Candidate], target: int) -> Iterator[Move]:
    """One move per candidate and one for the answer, each thought about what the tool showed before."""
    thought = FIRST
    for text, value in candidates:
        yield Move(thought=thought, action=Action(kind="call", name="python", text=text))
        thought = (RIGHT if value == target else WRONG).format(value=value, target=target)
    if candidates[-1].value != target:
        thought = ROUNDED.format(value=candidates[-1].value, target=target)
    yield Move(thought=thought, action=Action(kind="answer", text=candidates[-1].text))


def spoken(candidates: Sequence[Candidate], target: int) -> Iterator[Move]:
    """The same in one thought, without a tool."""
    *wrong, right = candidates
    lines = [TEXT_WRONG.format(text=text, value=without_point(value), target=target) for text, value in wrong]
    lines.append(TEXT_RIGHT.format(text=right.text, value=target))
    yield Move(thought="\n".join(lines), action=Action(kind="answer", text=right.text))


def without_point(value: int | float) -> int | float:
    """Return a whole float as an integer: without the tool, 196 / 2 is 98 and not 98.0."""
    return int(value) if value % 1 == 0 else value


def random_tries(task: Task, num: int, seed: int) -> list[str]:
    """The honest floor: `num` distinct random valid expressions (fewer, if there are no more)."""
    return random_expressions(task.data["numbers"], num, random.Random(f"countdown/random/{seed}/{task.id}"))
