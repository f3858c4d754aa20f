"""Countdown as Calc-Bench has it: the numbers of an expression, shuffled, and its value; each is to be used once.

Using the numbers [19, 44, 35], create an equation that equals 98. Use each number exactly once.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from random import Random
from typing import Any

from rlx.base.limits import MANY, within
from rlx.env.calc.calc_question import CalcQuestions
from rlx.env.calc.equation import solves
from rlx.env.calc.expressions import Draw
from rlx.env.countdown.expression import random_candidate, random_expressions
from rlx.env.questions.number import write_number
from rlx.env.questions.question import Question
from rlx.tool.calculator import Calculator
from rlx.types import Action, Move, Step, Task

PROMPT = "Using the numbers {numbers}, create an equation that equals {target}. Use each number exactly once."
MOST = 5
"""Operations that may be asked for: with more, what is tried at random hardly ever helps."""


@dataclass(frozen=True, kw_only=True)
class CalcCountdown(CalcQuestions):
    """Questions whose reward is 1 for an expression that has each number exactly once and the target as its value.

    The answer may be written as models write it, and as an equation (rlx.env.calc.equation). The metric
    `env/hallucinated` is the count of numbers that an episode gave the calculator and that are not the question's.
    """

    digits: int = 4
    """Largest number of digits of a number."""
    min_operations: int = 3
    """Smallest number of operations; a question has one number more."""
    max_operations: int = 3
    """Largest number of operations."""
    parentheses: float = 0.3
    """Probability that a part of the hidden expression is in parentheses."""
    places: int = 3
    """Largest number of decimals of a target."""
    max_wrong: int = 3
    """Largest number of wrong expressions before the right one in a demonstration."""

    def __post_init__(self) -> None:
        super().__post_init__()
        within(1, MOST, max_operations=self.max_operations)
        within(1, self.max_operations, min_operations=self.min_operations)
        within(0, MANY, max_wrong=self.max_wrong)
        self.drawing()

    def drawing(self) -> Draw:
        return Draw(digits=self.digits, parentheses=self.parentheses, places=self.places)

    @property
    def stream(self) -> str:
        return "calc/countdown"

    def draw(self, rng: Random) -> Question:
        """Draw a question. The order of its numbers follows from them, so no other order is in another split."""
        text, value = self.drawing().expression(rng, rng.randint(self.min_operations, self.max_operations))
        numbers, target = sorted(map(int, re.findall(r"\d+", text))), write_number(value)
        identity = f"{numbers}={target}"
        Random(f"{self.stream}/{identity}").shuffle(numbers)
        prompt = PROMPT.format(numbers=numbers, target=target)
        key = {"numbers": numbers, "target": target}
        return Question(text=prompt, identity=identity, key=key, answer=text, worked=f"{text} = {target}, so I answer:")

    def is_right(self, key: Any, text: str) -> bool:
        return solves(text, key["numbers"], Fraction(key["target"]))

    def judge(self, task: Task, text: str) -> Step:
        step = super().judge(task, text)
        return Step(reward=step.reward, done=True, success=step.success, metrics={"hallucinated": 0.0})

    def measure(self, key: Any, expression: str) -> Mapping[str, float]:
        used = Counter(re.findall(r"\d+(?:\.\d+)?", expression, re.ASCII))
        allowed_numbers = set(map(str, key["numbers"]))
        return {"hallucinated": float(sum(num for number, num in used.items() if number not in allowed_numbers))}

    def sums(self, task: Task, rng: Random) -> Iterator[tuple[str, str]]:
        """Yield some wrong expressions, each followed by a thought that says so, and the right one."""
        thought, numbers, target = "", task.data["key"]["numbers"], task.data["key"]["target"]
        for _ in range(rng.randint(0, min(self.max_wrong, max(0, self.max_rounds - 1)))):
            text = random_candidate(numbers, rng, exact=True).text[1:-1]
            value = self.display(text)
            if value != target and not value.startswith("Error"):
                yield thought, text
                thought = f"{value} is not {target}."
        yield thought, task.data["answer"]

    def any_sum(self, task: Task, rng: Random) -> str:
        """Return a random expression of all numbers."""
        return random_candidate(task.data["key"]["numbers"], rng, exact=True).text[1:-1]

    def any_answer(self, task: Task, rng: Random, calculator: Calculator | None, expression: str) -> str:
        return expression or self.any_sum(task, rng)

    def display(self, text: str) -> str:
        return "" if self.calculator is None else self.calculator.run(text).output

    def conclude(self, task: Task, result: str) -> Move:
        return Move(thought=f"{result} is the target:", action=Action(kind="answer", text=task.data["answer"]))

    def random_tries(self, task: Task, num: int, seed: int) -> list[str]:
        """Return distinct random valid expressions: a baseline without knowledge."""
        return random_expressions(task.data["key"]["numbers"], num, Random(f"{self.stream}/random/{seed}/{task.id}"))
