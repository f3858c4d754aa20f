"""GSM8K*: word problems with larger numbers, of the project's own stories, or of a data set in the form of GSM8K.

The answers of GSM8K (Cobbe et al. 2021, arXiv:2110.14168) show their steps: `... <<48/2=24>>24 ...` and at the end
`#### 72`. A problem is scaled in one way (rlx.env.calc.gsm8k_scaling); one that cannot be is left out.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from random import Random
from typing import Any

from rlx.base.limits import each_once, near, refuse, within
from rlx.env import hub
from rlx.env.calc.calc_question import CalcQuestions, NumberQuestions
from rlx.env.calc.gsm8k_scaling import Worked, scale
from rlx.env.calc.stories import stories_of, tell
from rlx.env.questions.number import one_operation, read_number, write_number
from rlx.env.questions.question import Question, describe
from rlx.env.questions.sourced import SourcedQuestions
from rlx.env.questions.word_problems import KINDS
from rlx.env.split import PATIENCE
from rlx.types import Task

SCALED = tuple(kind for kind in KINDS if kind not in ("rest", "mean"))
"""Kinds of problems whose steps have no number that was found otherwise, or counted."""
STEP = re.compile(r"<<([^<>=]{1,200})=([^<>=]{1,200})>>")
WORKED_STEP = re.compile(r"(\S+ [-+*/] \S+) = (\S+)\.(?: |$)")
BELOW_ONE = re.compile(r"(?<![\d.])0?\.(\d+)")


@dataclass(frozen=True, kw_only=True)
class GSM8KStar(NumberQuestions, SourcedQuestions):
    """Questions whose reward is 1 for the exact number."""

    kinds: tuple[str, ...] | None = None
    """Kinds of problems, drawn evenly and the same in both splits, such as [gain, loss, groups, share, bill, change,
    way, discount, age, part]; null: the 104 stories, split by template (source=generated)."""
    high: int = 20
    """Approximate size of numbers before they are scaled (source=generated)."""
    largest: int = 10**6
    """Largest number of a story."""
    table: str | None = "main"
    """Table of the data set; null: the data set has only one."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.kinds is not None:
            object.__setattr__(self, "kinds", tuple(self.kinds))
            check_kinds(self.kinds)
        within(2, 1000, high=self.high)
        within(10, 10**6, largest=self.largest)

    @property
    def stream(self) -> str:
        return "calc/gsm8k"

    def tasks(self, split: str, seed: int) -> Iterator[Task]:
        if self.source == "hub" and split in ("train", "test"):
            return SourcedQuestions.tasks(self, split, seed)
        return CalcQuestions.tasks(self, split, seed)

    def draw(self, rng: Random) -> Question:
        return self.draw_from(rng, is_test=False)

    def draw_test(self, rng: Random) -> Question:
        return self.draw_from(rng, is_test=True)

    def draw_from(self, rng: Random, *, is_test: bool) -> Question:
        """Draw a question of a split's stories, or of the kinds."""
        for _ in range(PATIENCE):
            drawn = self.problem(rng, is_test)
            question = None if drawn is None else self.ask_scaled(*drawn)
            if question is not None:
                return question
        raise ValueError("env: no problem was found that can be scaled: raise `largest` or lower `high`")

    def problem(self, rng: Random, is_test: bool) -> tuple[Worked, Fraction] | None:
        """Draw a problem and its answer before it is scaled; None where the numbers do not suit the story."""
        if self.kinds is None:
            return tell(rng.choice(stories_of(is_test)), rng, self.high)
        text, value, worked = KINDS[rng.choice(self.kinds)](rng, self.high)
        return Worked(text, tuple(expression for expression, _ in WORKED_STEP.findall(worked))), value

    def read(self, row: Mapping[str, Any]) -> Question | None:
        solution = hub.text_of(row[self.answer_key])
        answer = read_number(solution.rpartition("####")[2])
        steps = tuple(expression for expression, _ in STEP.findall(solution))
        return None if answer is None else self.ask_scaled(Worked(hub.text_of(row[self.question_key]), steps), answer)

    def ask_scaled(self, problem: Worked, answer: Fraction) -> Question | None:
        """Scale a problem, always alike, so that no other scaling of it is in another split."""
        scaled_problem = scale(problem, answer, Random(f"{self.stream}/{problem.text}"), self.largest)
        if scaled_problem is None:
            return None
        scaled, answer_text = scaled_problem[0], write_number(scaled_problem[1])
        return Question(
            text=scaled.text,
            identity=problem.text,
            key={"answer": answer_text, "sums": [make_pressable(step) for step in scaled.steps]},
            answer=answer_text,
            worked=f"I calculate {', then '.join(scaled.steps)}.",
        )

    def rows(self, split: str, order: Random | None = None) -> Iterator[Task]:
        """Yield the rows that can be scaled."""
        rows = hub.load_rows(self.hub, split, self.table)
        numbers = range(len(rows))
        for index in numbers if order is None else order.sample(numbers, len(numbers)):
            hub.require_columns(self.hub, index, rows[index], self.columns)
            question = self.read(rows[index])
            if question is not None:
                yield describe(question)

    def check_inputs(self) -> None:
        """Refuse a data set that is here and has none."""
        rows = hub.first_rows(self.hub) if self.source == "hub" else []
        for index, row in enumerate(rows):
            hub.require_columns(self.hub, index, row, self.columns)
        if rows and not any(map(self.read, rows)):
            hub.refuse(self.hub, "no row has steps, such as <<6*7=42>>, and an answer after ####, that can be scaled")

    def sums(self, task: Task, rng: Random) -> Iterator[tuple[str, str]]:
        yield from (("", expression) for expression in task.data["key"]["sums"])

    def random_tries(self, task: Task, num: int, seed: int) -> list[str]:
        """Return distinct results of one operation on two of the problem's numbers: a baseline without knowledge."""
        numbers = [int(number) for number in re.findall(r"\d{1,9}", task.prompt[0].text, re.ASCII)] or [0]
        return one_operation(numbers, num, Random(f"{self.stream}/random/{seed}/{task.id}"))


def check_kinds(kinds: Sequence[str]) -> None:
    """Refuse an empty list, a kind that does not exist and a kind that is named twice."""
    if not kinds:
        refuse("kinds", [], f"at least one of {', '.join(SCALED)}, or null")
    each_once(kinds=kinds)
    for kind in kinds:
        if kind not in SCALED:
            raise ValueError(f"kinds={kind!r:.40}: there is no such kind of problems{near(kind, SCALED)}")


def make_pressable(expression: str) -> str:
    """Return the expression as it can be pressed: what begins with a 0 or a point becomes a quotient."""
    return BELOW_ONE.sub(lambda part: f"({int(part[1])} / {10 ** len(part[1])})", expression)
