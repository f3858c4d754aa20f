"""Modulo: what is left of a division, with a calculator that does not say it.

What is 1234 mod 56?     calculate 1234 / 56 = 22.036     calculate 1234 - 22 * 56 = 2
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from random import Random

from rlx.base.limits import within
from rlx.env.calc.calc_question import NumberQuestions
from rlx.env.calc.expressions import MOST_DIGITS, Draw
from rlx.env.questions.question import Question
from rlx.types import Task


@dataclass(frozen=True, kw_only=True)
class Modulo(NumberQuestions):
    """The reward is 1 for what is left."""

    digits: int = 5
    """Largest number of digits of the dividend."""
    divisor_digits: int = 3
    """Largest number of digits of the divisor."""

    def __post_init__(self) -> None:
        super().__post_init__()
        within(1, MOST_DIGITS, digits=self.digits, divisor_digits=self.divisor_digits)

    @property
    def stream(self) -> str:
        return "calc/modulo"

    def draw(self, rng: Random) -> Question:
        divisor, number = sorted(Draw(digits=digits).number(rng) for digits in (self.divisor_digits, self.digits))
        quotient, answer = divmod(number, divisor)
        key = {"answer": str(answer), "number": number, "divisor": divisor}
        worked = f"{number} - {quotient} * {divisor} = {answer}."
        return Question(text=f"What is {number} mod {divisor}?", key=key, answer=str(answer), worked=worked)

    def sums(self, task: Task, rng: Random) -> Iterator[tuple[str, str]]:
        number, divisor = task.data["key"]["number"], task.data["key"]["divisor"]
        yield "", f"{number} / {divisor}"
        yield f"It goes {number // divisor} times.", f"{number} - {number // divisor} * {divisor}"

    def random_tries(self, task: Task, num: int, seed: int) -> list[str]:
        """The honest floor: any number below the divisor."""
        below = range(task.data["key"]["divisor"])
        rng = Random(f"{self.stream}/random/{seed}/{task.id}")
        return [str(number) for number in rng.sample(below, min(num, len(below)))]
