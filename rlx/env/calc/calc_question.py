"""Common parts of the tasks of Calc-Bench (Yue et al. 2025, "Expanding the Action Space of LLMs to Reason Beyond
Language", section 3): a calculator that keeps nothing, and a reward of 1 for an answer that matches exactly, else 0.

    agent:        calculate (44 + 35) + 19 =
    calculator:   98
    agent:        (44 + 35) + 19            the last calculation of an answer counts, or its last number
"""

from __future__ import annotations

import re
from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from random import Random
from typing import Any, ClassVar, Literal

from rlx.base.limits import MANY, refuse, within
from rlx.env.calc.number_answer import number_in
from rlx.env.countdown.expression import random_candidate
from rlx.env.questions.question import DrawnQuestions, Question, QuestionEpisode, describe, end_judged
from rlx.env.split import split_tasks
from rlx.environment.random_play import tries_of
from rlx.tool.calculator import Calculator
from rlx.types import Action, Move, Step, Task, Text, ToolUse, Verb


@dataclass(frozen=True, kw_only=True)
class CalcQuestions(DrawnQuestions):
    """Questions with a calculator beside them."""

    pace: ClassVar = "inline"

    num_train: int | None = None
    """Training questions: a set of so many draws, the same for every seed; what is drawn twice is in it twice. Null:
    endless ones, drawn for the seed."""
    num_test: int = 2000
    """Number of test questions, the same for every seed; a hash of the question keeps them out of training."""
    max_rounds: int = 20
    """Turns before the answer: calls of the calculator and invalid turns."""
    calculator: Calculator | None = field(default_factory=Calculator)
    """Calculator for the agent; null: none."""
    expert: Literal["worked", "any"] = "worked"
    """Expert of the demonstrations: worked does what the question needs; any calculates anything and answers anything,
    which shows how to act and nothing that helps."""
    any_calls: int = 2
    """Largest number of calls in a demonstration of expert=any."""
    any_known: float = 0.0
    """Share of expert=any's demonstrations that give the right answer without a call."""

    def __post_init__(self) -> None:
        super().__post_init__()
        within(1, MANY, num_train=self.num_train)
        within(0, MANY, any_calls=self.any_calls)
        within(0.0, 1.0, any_known=self.any_known)
        if self.expert == "any" and not self.has_random_tries:
            refuse("expert", self.expert, "worked, as there is no answer here that anything could be")

    @property
    def tools(self) -> tuple[Verb, ...]:
        return () if self.calculator is None else (self.calculator.verb,)

    def draw_test(self, rng: Random) -> Question:
        return self.draw(rng)

    def tasks(self, split: str, seed: int) -> Iterator[Task]:
        return split_tasks(
            self.stream,
            lambda rng: describe(self.draw(rng)),
            split,
            seed,
            self.num_test,
            draw_test=lambda rng: describe(self.draw_test(rng)),
            num_train=self.num_train,
        )

    def start(self, task: Task) -> CalcEpisode:
        return CalcEpisode(self, task)

    @abstractmethod
    def is_right(self, key: Any, text: str) -> bool:
        """Tell whether an answer is exactly what the question's key asks for."""

    def judge(self, task: Task, text: str) -> Step:
        return end_judged(float(self.is_right(task.data["key"], text)))

    def measure(self, key: Any, expression: str) -> Mapping[str, float]:
        """Return the measures of a call."""
        return {}

    def sums(self, task: Task, rng: Random) -> Iterator[tuple[str, str]]:
        """An expert's calls, each with what it thinks before; none where it needs no calculator."""
        yield from ()

    def demonstrate(self, task: Task, seed: int, tools: Sequence[str]) -> Iterator[Move]:
        """Answer with the calculator's last result; without a calculator, or without need of one, after a thought."""
        rng, result = Random(f"{self.stream}/demonstrate/{seed}/{task.id}"), ""
        calculator = self.calculator if "calculate" in tools else None
        if self.expert == "any":
            is_known = rng.random() < self.any_known
            yield from super().demonstrate(task, seed, tools) if is_known else self.wander(task, rng, calculator)
            return
        for thought, expression in self.sums(task, rng) if calculator else ():
            yield Move(thought=thought, action=Action(kind="call", name="calculate", text=f"{expression} ="))
            result = calculator.run(expression).output if calculator else ""
        if not result:
            yield from super().demonstrate(task, seed, tools)
        else:
            yield self.conclude(task, result)

    def wander(self, task: Task, rng: Random, calculator: Calculator | None) -> Iterator[Move]:
        """Up to `any_calls` calls, and an answer: what was shown last, if something was, else any."""
        expression = ""
        for _ in range(rng.randint(0, min(self.any_calls, self.max_rounds)) if calculator else 0):
            expression = self.any_sum(task, rng)
            yield Move(thought="", action=Action(kind="call", name="calculate", text=f"{expression} ="))
        yield Move(thought="", action=Action(kind="answer", text=self.any_answer(task, rng, calculator, expression)))

    def any_sum(self, task: Task, rng: Random) -> str:
        """One operation on two of the numbers that the question tells, or of any."""
        question_numbers = [
            int(number) for number in re.findall(r"(?<!\d)[1-9]\d{0,8}(?!\d)", task.prompt[0].text, re.ASCII)
        ]
        numbers = question_numbers if len(question_numbers) > 1 else [*question_numbers, *rng.sample(range(1, 10), 2)]
        return random_candidate(rng.sample(numbers, 2), rng, exact=True).text[1:-1]

    def any_answer(self, task: Task, rng: Random, calculator: Calculator | None, expression: str) -> str:
        result = calculator.run(expression) if calculator and expression else None
        if result is not None and not result.failed:
            return result.output
        return next(tries_of(self, task, 1, rng.randrange(MANY))).text

    def conclude(self, task: Task, result: str) -> Move:
        """The answer, when the last call has shown what it did."""
        return Move(thought="", action=Action(kind="answer", text=result))


class CalcEpisode(QuestionEpisode):
    def __init__(self, questions: CalcQuestions, task: Task) -> None:
        super().__init__(questions, task)
        self.calc = questions

    def step(self, action: Action) -> Step:
        calculator = self.calc.calculator
        if action.kind != "call" or action.name != "calculate" or calculator is None:
            return super().step(action)
        result = calculator.run(action.text)
        return Step(
            observation=(Text(result.output),),
            tool=ToolUse(num_calls=1, num_failed=int(result.failed)),
            metrics=self.calc.measure(self.task.data["key"], action.text),
        )


class NumberQuestions(CalcQuestions):
    """Questions whose answer is a number, stored in the key as `answer`."""

    def is_right(self, key: Any, text: str) -> bool:
        return number_in(text) == Fraction(key["answer"])
