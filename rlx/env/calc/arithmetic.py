"""Arithmetic: what is an expression worth, whose signs and numbers may be in words.

Tests have longer expressions than training, and more of them in words.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from random import Random

from rlx.base.limits import within
from rlx.env.calc.calc_question import NumberQuestions
from rlx.env.calc.expressions import Draw, speak
from rlx.env.questions.number import one_operation, write_number
from rlx.env.questions.question import Question
from rlx.types import Task

MOST = 12
"""Operations that may be asked for."""


@dataclass(frozen=True, kw_only=True)
class Arithmetic(NumberQuestions):
    """The reward is 1 for the exact value."""

    digits: int = 5
    """Largest number of digits of a number."""
    min_operations: int = 2
    """Smallest number of operations."""
    max_operations: int = 4
    """Largest number of operations in training."""
    test_operations: int = 6
    """Largest number of operations in tests."""
    words: float = 0.1
    """Share of questions in words, in training."""
    test_words: float = 0.7
    """Share of questions in words, in tests."""
    parentheses: float = 0.3
    """Probability that a part of an expression is in parentheses."""
    places: int = 3
    """Largest number of decimals of a value."""

    def __post_init__(self) -> None:
        super().__post_init__()
        within(1, MOST, max_operations=self.max_operations, test_operations=self.test_operations)
        within(1, min(self.max_operations, self.test_operations), min_operations=self.min_operations)
        within(0.0, 1.0, words=self.words, test_words=self.test_words)
        self.drawing()

    def drawing(self) -> Draw:
        return Draw(digits=self.digits, parentheses=self.parentheses, places=self.places)

    @property
    def stream(self) -> str:
        return "calc/arithmetic"

    def draw(self, rng: Random) -> Question:
        return self.ask(rng, self.max_operations, self.words)

    def draw_test(self, rng: Random) -> Question:
        return self.ask(rng, self.test_operations, self.test_words)

    def ask(self, rng: Random, most: int, words: float) -> Question:
        """An expression is always asked alike, so that in words it is not in another split than in signs."""
        text, value = self.drawing().expression(rng, rng.randint(self.min_operations, most))
        words_rng = Random(f"{self.stream}/{text}")
        wording = speak(text, words_rng) if words_rng.random() < words else text
        answer = write_number(value)
        key = {"answer": answer, "expression": text}
        return Question(
            text=f"What is {wording}?", identity=text, key=key, answer=answer, worked=f"It is {text} = {answer}."
        )

    def sums(self, task: Task, rng: Random) -> Iterator[tuple[str, str]]:
        yield "", task.data["key"]["expression"]

    def random_tries(self, task: Task, num: int, seed: int) -> list[str]:
        """The honest floor: distinct results of one operation on two of the numbers."""
        numbers = [int(number) for number in re.findall(r"\d+", task.data["key"]["expression"])]
        return one_operation(numbers, num, Random(f"{self.stream}/random/{seed}/{task.id}"))
