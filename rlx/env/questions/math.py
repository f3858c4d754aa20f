"""Problems with an answer that mathematics decides: word problems of the project, or any data set with a question and
an answer in each row.

As `numbers` an answer and its key are compared as exact fractions; `math_verify` compares them as formulas, sets,
intervals and what else it knows (Kydlíček 2025, https://github.com/huggingface/Math-Verify), in a contained process
(rlx.env.questions.math_scorer). An answer that leaves operations undone, as `1+2` for 3, is wrong unless `unworked`
says otherwise.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from random import Random
from typing import Any, Literal

from rlx.base.limits import MistakeError, Switch, above, each_once, near, refuse, within
from rlx.env.questions.number import one_operation, read_number, write_number
from rlx.env.questions.question import Question, end_judged
from rlx.env.questions.sourced import SourcedQuestions
from rlx.env.questions.word_problems import KINDS
from rlx.env.questions.wording import right_answers
from rlx.env.questions.worked import is_worked
from rlx.tool.contain.box import Box, Limits, box
from rlx.tool.contain.process import ChildError, LateError
from rlx.tool.processor import clock_limit
from rlx.types import Action, Move, Step, Task

SCORERS = {
    verify: str(Path(__file__).with_name(name))
    for verify, name in [("math_verify", "math_scorer.py"), ("gem", "gem_scorer.py")]
}
MEMORY_MB = 2048
"""Memory limit of a judgement."""
LARGEST = 10**9
INTEGER = re.compile(r"\d{1,9}", re.ASCII)
OPERATION = re.compile(r"(\S+ [-+*/] \S+) = ")
"""Pattern for one worked step, such as `3 + 4 = 7`."""


@dataclass(frozen=True, kw_only=True)
class Math(SourcedQuestions):
    """The reward is 1 for an answer that equals the key."""

    verify: Literal["numbers", "math_verify", "gem"] = "numbers"
    """Comparison of an answer with the key: numbers (exact), math_verify (needs math-verify) or gem (its rules;
    needs math-verify)."""
    kinds: tuple[str, ...] = tuple(KINDS)
    """Kinds of problems, drawn evenly (source=generated)."""
    high: int = 20
    """Approximate size of the largest numbers (source=generated)."""
    seconds: float = 3.0
    """Seconds of processor time for a judgement by math_verify or gem; an answer that takes longer is wrong."""
    unworked: bool = False
    """Accept answers that leave operations undone, such as `1+2` or `6/2` for 3 (math-verify)."""
    contained: Switch = True
    """Let the kernel contain the process of math_verify and gem; false: the process runs with your own rights."""

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "kinds", tuple(self.kinds))
        if not self.kinds:
            refuse("kinds", [], f"at least one of {', '.join(KINDS)}")
        each_once(kinds=self.kinds)
        for kind in self.kinds:
            if kind not in KINDS:
                raise ValueError(f"kinds={kind!r:.40}: there is no such kind of problems{near(kind, KINDS)}")
        within(2, LARGEST, high=self.high)
        above(0, 3600, seconds=self.seconds)

    @property
    def stream(self) -> str:
        return "math"

    def check_inputs(self) -> None:
        self.require()
        super().check_inputs()

    def require(self) -> None:
        if self.verify in SCORERS and find_spec("math_verify") is None:
            raise MistakeError("env: math_verify is not installed: pip install 'rlx[math]', or env.verify=numbers")
        if self.verify in SCORERS:
            self.box.know()

    @property
    def box(self) -> Box:
        return box(SCORERS[self.verify], contained=self.contained)

    def tasks(self, split: str, seed: int) -> Iterator[Task]:
        self.require()
        return super().tasks(split, seed)

    def draw(self, rng: Random) -> Question:
        text, value, worked = KINDS[rng.choice(self.kinds)](rng, self.high)
        answer = write_number(value)
        return Question(text=text, key=[answer], answer=answer, worked=worked)

    def read(self, row: Mapping[str, Any]) -> Question | None:
        keys = [key.strip().strip("$") for key in right_answers(row[self.answer_key])]
        if self.verify == "numbers":
            keys = [key for key in keys if read_number(key) is not None]
        return Question(text=str(row[self.question_key]), key=keys, answer=keys[0]) if keys else None

    def judge(self, task: Task, text: str) -> Step:
        keys = task.data["key"]
        match self.verify:
            case "gem":
                return end_judged(1.0) if text.strip() in keys else self.compare(keys, text)
        number = read_number(text)
        same = text.strip() in keys or (number is not None and number in map(read_number, keys))
        if not same and self.verify == "math_verify" and (self.unworked or is_worked(text, keys)):
            return self.compare(keys, text)
        return end_judged(float(same))

    def compare(self, keys: list[str], text: str) -> Step:
        """Judge an answer in a process of its own."""
        limits = Limits(memory_mb=MEMORY_MB, cpu_seconds=self.seconds)
        try:
            same = self.box.ask({"keys": keys, "text": text}, clock_limit(self.seconds), limits) is True
        except ChildError as error:
            return end_judged(0.0, num_stopped=int(isinstance(error, LateError)))
        return end_judged(float(same))

    def demonstrate(self, task: Task, seed: int, tools: Sequence[str]) -> Iterator[Move]:
        """Run each step in Python, if it is lent, and then answer."""
        for step in OPERATION.findall(task.data["worked"]) if "python" in tools else ():
            yield Move(thought=f"I need {step}.", action=Action(kind="call", name="python", text=step))
        yield from super().demonstrate(task, seed, tools)

    def random_tries(self, task: Task, num: int, seed: int) -> list[str]:
        """The honest floor: distinct results of one operation on two of the problem's numbers."""
        rng = Random(f"math/random/{seed}/{task.id}")
        numbers = list(map(int, INTEGER.findall(task.prompt[0].text))) or [0]
        return one_operation(numbers, num, rng)
