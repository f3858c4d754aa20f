"""Word problems whose worked steps are true and lead to the answer; answers compared as numbers and by math-verify,
which hostile ones neither hang nor leave."""

from __future__ import annotations

import json
import re
from fractions import Fraction
from importlib.util import find_spec
from itertools import islice, product
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rlx.base.limits import MistakeError
from rlx.env.questions.math import Math
from rlx.env.questions.number import read_number
from rlx.env.questions.word_problems import KINDS, SIGNS
from rlx.environment.world import moves_of, open_episode
from rlx.tool.lend import Lend
from rlx.tool.python import Python
from rlx.types import Action, Step, Task, Text
from tests.errors import raises_naming
from tests.loops import for_each

needs_math_verify = pytest.mark.skipif(find_spec("math_verify") is None, reason="math-verify is not installed")
FOUND = {"discount": (100,), "rest": range(1, 1001)}
"""What a step begins with and no problem tells."""
STEP = re.compile(r"(\S+) ([-+*/]) (\S+) = (\S+)\.(?: |$)")


def judge(text: str, *keys: str, **settings: Any) -> Step:
    task = Task(id="x", prompt=(), data={"key": list(keys), "answer": keys[0], "worked": ""})
    return Math(**settings).start(task).step(Action(kind="answer", text=text))


@for_each("kind, high", product(KINDS, [2, 20, 1000]))
def test_steps_are_true_begin_with_what_is_told_and_end_at_the_answer(kind: str, high: int) -> None:
    for seed in range(50):
        problem = KINDS[kind](Random(seed), high)
        known = {read_number(number) for number in re.findall(r"\d+(?:\.\d+|/\d+)?", problem.text)}
        known |= {read_number(number) for number in re.findall(r"\d+", problem.text)}
        known |= {Fraction(number) for number in FOUND.get(kind, ())}
        steps = STEP.findall(problem.worked)
        assert " ".join(f"{a} {sign} {b} = {value}." for a, sign, b, value in steps) == problem.worked
        for a, sign, b, value in steps:
            assert {read_number(a), read_number(b)} <= known
            assert SIGNS[sign](read_number(a), read_number(b)) == read_number(value)  # type: ignore[arg-type]
            known.add(read_number(value))
        assert read_number(steps[-1][3]) == problem.value >= 0


@for_each("kind", KINDS)
def test_with_python_the_expert_runs_each_step(kind: str) -> None:
    lent = Lend(env=Math(kinds=(kind,), max_rounds=9), tool=Python())
    for task in islice(lent.tasks("train", 0), 5):
        steps = STEP.findall(task.data["worked"])
        with open_episode(lent, task) as episode:
            told = [episode.step(move.action) for move in moves_of(lent, task, 0, ("python",))]
        assert [step.tool.num_calls for step in told] == [1] * len(steps) + [0]
        for step, (*_, value) in zip(told[:-1], steps, strict=True):
            assert float(step.observation[0].text) == pytest.approx(float(Fraction(value)))
        assert told[-1].success
        assert len(list(moves_of(lent, task, 0, ()))) == 1


def test_kinds_can_be_chosen() -> None:
    assert all("mean" in task.prompt[0].text for task in islice(Math(kinds=("mean",)).tasks("train", 0), 20))
    with raises_naming(ValueError, "kinds='means'", "mean"):
        Math(kinds=("means",))
    with raises_naming(ValueError, "kinds=[]", "gain", "loss"):
        Math(kinds=())


@for_each(
    "text, key, reward",
    [
        ("12.50", "12.5", 1.0),
        ("25/2", "12.5", 1.0),
        ("$1,000", "1000", 1.0),
        ("13", "12.5", 0.0),
        ("x = 12.5", "12.5", 0.0),
    ],
)
def test_numbers_are_equal_whatever_their_form(text: str, key: str, reward: float) -> None:
    assert judge(text, key).reward == reward


def write(path: Path, rows: list[dict[str, Any]]) -> str:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return str(path)


def test_a_data_set_is_asked_by_its_columns(tmp_path: Path) -> None:
    path = write(tmp_path / "rows.jsonl", [{"problem": f"{i} + 1?", "answer": f"${i + 1}$"} for i in range(9)])
    env = Math(source="hub", hub=path, question_key="problem")
    env.check_inputs()
    task = next(env.tasks("train", 0))
    assert env.start(task).step(Action(kind="answer", text=task.data["answer"])).success
    with raises_naming(MistakeError, "env.question_key=question", "row 0"):
        Math(source="hub", hub=path).check_inputs()


def test_keys_that_are_no_numbers_need_math_verify(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(tmp_path / "rows.jsonl", [{"question": "?", "answer": "x^2"}])
    with raises_naming(MistakeError, "env.hub=", "row 0", "answer"):
        Math(source="hub", hub=path).check_inputs()
    monkeypatch.setattr("rlx.env.questions.math.find_spec", lambda name: None)
    for look in (lambda env: env.check_inputs(), lambda env: env.tasks("train", 0)):
        with raises_naming(MistakeError, "env:", "math_verify", "pip install 'rlx[math]'"):
            look(Math(source="hub", hub=path, verify="math_verify"))


@needs_math_verify
@pytest.mark.parametrize(
    ("text", "key", "reward"),
    [
        ("x^2 + 2x + 1", "(x+1)^2", 1.0),
        (r"\frac{\sqrt{2}}{2}", r"\frac{1}{\sqrt{2}}", 1.0),
        (r"\{1, 2\}", r"\{2, 1\}", 1.0),
        ("x = 12.5", "12.5", 1.0),
        (r"18 \text{ dollars}", "18", 1.0),
        ("(1, 2]", "[1, 2]", 0.0),
        ("2x", "3x", 0.0),
        ("", "3x", 0.0),
        (r"50\%", "50", 1.0),
        (r"50\%", "0.5", 1.0),
        ("1/2", "50%", 1.0),
        (r"12.5 \%", r"\frac{1}{8}", 1.0),
        (r"50\%", "50%", 1.0),
        (r"50\%", r"5000\%", 0.0),
        ("50%", "5", 0.0),
        ("%", "50", 0.0),
    ],
)
def test_math_verify_knows_formulas(text: str, key: str, reward: float) -> None:
    assert judge(text, key, verify="math_verify", seconds=30.0).reward == reward


@needs_math_verify
def test_any_of_several_keys_will_do() -> None:
    assert judge("2x", "y", "x + x", verify="math_verify", seconds=30.0).success


@needs_math_verify
@pytest.mark.parametrize(
    "text",
    [
        *("9" * 15_000, "9^{9^{9^{9^9}}}", "99999999!", "\\sum_{n=1}^{10^{12}} n^{n}"),
        *("{" * 5000, "}" * 99, "\\frac{" * 800, "(" * 4000 + ")" * 4000),
        *("\x00\x1b", "\ud800", "__import__('os').system('touch /tmp/rlx-was-here')"),
    ],
)
def test_hostile_answers_are_wrong_in_bounded_time(text: str) -> None:
    assert judge(text, "3", verify="math_verify", seconds=1.0) == Step(done=True, success=False)
    assert judge(r"\frac{6}{2}", "3", "x", verify="math_verify", seconds=30.0).success
    assert not Path("/tmp/rlx-was-here").exists()


@needs_math_verify
@settings(max_examples=40)
@given(st.text(alphabet="0123456789xy+-*/^{}()\\frac \n$", max_size=40))
def test_any_formula_is_judged(text: str) -> None:
    assert judge(text, "3y", verify="math_verify", seconds=2.0).reward in (0.0, 1.0)


def test_random_tries_at_a_long_problem_are_of_its_first_numbers() -> None:
    numbers = [*range(1, 65), *range(10**6, 10**6 + 500)]
    task = Task(id="x", prompt=(Text(" ".join(map(str, numbers))),), data={})
    assert max(map(int, Math().random_tries(task, 1000, 0))) <= 64 * 64
