"""Programming problems whose answers are programs, run on tests, contained (rlx.tool.program):
small ones of the project, or those of a data set.

    tests     {"inputs": ["3\\n4\\n"], "outputs": ["17\\n"]}                  what is read, and what must be printed
              {"fn_name": "f", "inputs": [[3, 4]], "outputs": [17]}        what a function must return
              ["assert f(3, 4) == 17"]                                     what must hold
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from random import Random
from typing import Any, ClassVar, Literal

from rlx.base.fences import last_block
from rlx.base.limits import within
from rlx.env.questions.program_problems import KINDS
from rlx.env.questions.question import Question, end_judged
from rlx.env.questions.sourced import SourcedQuestions
from rlx.tool.program import run_assertions, run_calls, run_programs
from rlx.tool.python import Python
from rlx.types import Step, Task

Test = list[str]
"""Input and expected output; or an expression and its value."""


@dataclass(frozen=True, kw_only=True)
class Code(SourcedQuestions):
    """The reward is 1 for a program that passes all tests; or the share of tests that it passes."""

    answer_form: ClassVar = "program"

    reward: Literal["all", "share"] = "all"
    """Reward of a program: all (1 for a program that passes all tests) or share (the share of tests that it passes)."""
    max_tests: int = 12
    """Tests of a data set's problem that are run: those with the longest inputs."""
    answer_key: str = "tests"
    """The data set's column of tests: {"inputs": [...], "outputs": [...]}, with an "fn_name" or not, or a list of
    assertions."""
    python: Python = field(default_factory=lambda: Python(seconds=2.0, memory_mb=256, max_characters=20_000))
    """The Python sandbox that programs are run in, and the limits of one test."""

    def __post_init__(self) -> None:
        super().__post_init__()
        within(1, 1000, max_tests=self.max_tests)

    def check_inputs(self) -> None:
        self.python.check_inputs()
        super().check_inputs()

    @property
    def stream(self) -> str:
        return "code"

    def draw(self, rng: Random) -> Question:
        problem = KINDS[rng.choice(sorted(KINDS))](rng)
        example_input, right = problem.tests[0]
        example = f"{example_input} returns {right}" if problem.calls else f"reading\n{example_input}it prints\n{right}"
        tests = [[f"repr({test_input})" if problem.calls else test_input, right] for test_input, right in problem.tests]
        key = {"calls": problem.calls, "tests": tests}
        text = f"{problem.text}\nFor example, {example}"
        return Question(text=text, identity=problem.text, key=key, answer=problem.solution)

    def read(self, row: Mapping[str, Any]) -> Question | None:
        key = read_tests(row[self.answer_key])
        if key is None or not key["tests"]:
            return None
        longest = sorted(key["tests"], key=lambda test: len(test[0]), reverse=True)[: self.max_tests]
        return Question(text=str(row[self.question_key]), key={**key, "tests": longest})

    def judge(self, task: Task, text: str) -> Step:
        tests, program = task.data["key"]["tests"], program_in(text)
        num_passed, num_stopped = 0, 0
        for passed, stopped in self.results(program, task.data["key"]):
            num_passed, num_stopped = num_passed + passed, num_stopped + stopped
            if not passed and self.reward == "all":
                break
        share = num_passed / len(tests)
        if self.reward == "all":
            return end_judged(float(share == 1.0), num_stopped=num_stopped)
        return end_judged(share, metrics={"tests_passed": share}, num_stopped=num_stopped)

    def unanswered(self, task: Task) -> Mapping[str, float]:
        return {} if self.reward == "all" else {"tests_passed": 0.0}

    def results(self, program: str, key: Mapping[str, Any]) -> Iterator[tuple[bool, bool]]:
        """Yield of each test: it is passed, and the clock ended it."""
        inputs, right = zip(*key["tests"])
        run = run_assertions if key.get("asserts") else run_calls if key["calls"] else run_programs
        for result, wanted in zip(run(self.python, program, inputs), right):
            yield not result.failed and lines(result.output) == lines(wanted), result.stopped


def program_in(text: str) -> str:
    """Return the last block of code of an answer, where it has one."""
    block = last_block(text, labels=())
    return text if block is None else block


def lines(text: str) -> list[str]:
    return [line.rstrip() for line in text.strip().splitlines()]


def read_tests(cell: Any) -> dict[str, Any] | None:
    """Read the tests from a cell of a data set, JSON or not; None if none of them can be run."""
    if isinstance(cell, str):
        try:
            cell = json.loads(cell)
        except (ValueError, RecursionError):
            return None
    if isinstance(cell, list):
        return read_listed(cell)
    if not isinstance(cell, Mapping) or not all(isinstance(cell.get(name), list) for name in ("inputs", "outputs")):
        return None
    pairs = zip(cell["inputs"], cell["outputs"])
    if cell.get("fn_name"):
        return {"calls": True, "tests": [call_of(str(cell["fn_name"]), *pair) for pair in pairs]}
    return {"calls": False, "tests": [[as_text(test_input), as_text(right)] for test_input, right in pairs]}


def read_listed(cells: list[Any]) -> dict[str, Any] | None:
    """Assertions, or objects with an input and an output each."""
    if cells and all(isinstance(cell, str) and cell.startswith("assert ") for cell in cells):
        tests = [[f"not not [{cell.removeprefix('assert ')}][0]", "True"] for cell in cells]
        return {"calls": True, "asserts": True, "tests": tests}
    if all(isinstance(cell, Mapping) and {"input", "output"} <= set(cell) for cell in cells):
        return {"calls": False, "tests": [[as_text(cell["input"]), as_text(cell["output"])] for cell in cells]}
    return None


def call_of(name: str, inputs: Any, right: Any) -> Test:
    """Return the test of a call. The inputs are a list of arguments; the result may be wrapped in a list of one."""
    arguments = inputs if isinstance(inputs, list) else [inputs]
    value = right[0] if isinstance(right, list) and len(right) == 1 else right
    return [f"repr({name}({', '.join(map(repr, arguments))}))", repr(value)]


def as_text(cell: Any) -> str:
    return "\n".join(map(str, cell)) if isinstance(cell, list) else str(cell)
