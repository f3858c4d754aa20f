"""Verify by GEM's rules: pairs with the judgement of GEM 0.1.0; GEM itself is asked where it is installed."""

from __future__ import annotations

import json
import os
import subprocess
from importlib.util import find_spec
from pathlib import Path

import pytest

from rlx.env.questions.gem_answers import elements, simplify, trim
from rlx.env.questions.math import Math
from rlx.types import Action, Step, Task
from tests.loops import for_each

pytestmark = pytest.mark.skipif(find_spec("math_verify") is None, reason="math-verify is not installed")

RIGHT = [
    ("50", r"50\%"),
    (r"50\%", "50"),
    ("50%", "50"),
    ("1e3", "1000"),
    ("1.5e3", "1500"),
    ("1000.0", "1000"),
    ("90", r"90^\circ"),
    (r"90^{\circ}", "90"),
    ("90°", "90"),
    ("90 degrees", "90"),
    ("1 1/2", "3/2"),
    ("1 1/2", r"\frac{3}{2}"),
    ("10%", "10"),
    (r"18 \text{ dollars}", "18"),
    (r"18\text{ cm}^2", "18"),
    ("5 miles", "5"),
    ("5 cm", "5"),
    ("5 kg", "5"),
    (r"\[5\]", "5"),
    (r"5\ ", "5"),
    (".5", "1/2"),
    ("0.5", r"\frac{1}{2}"),
    (r"\frac12", "1/2"),
    (r"\dfrac{1}{2}", "1/2"),
    (r"\frac{2}{4}", "1/2"),
    ("2/4", "1/2"),
    ("1,000", "1000"),
    ("1,234,567", "1234567"),
    ("1{,}000", "1000"),
    ("x=3", "3"),
    ("x = 3", "3"),
    ("y=x", "x"),
    (r"\text{True}", "true"),
    ("TRUE", "True"),
    (r"\text{(A)}", "A"),
    ("(A)", "A"),
    ("yes", "Yes"),
    ("Monday", "monday"),
    (r"\sqrt{12}", r"2\sqrt{3}"),
    (r"\sqrt3", r"\sqrt{3}"),
    (r"2\sqrt{3}", r"\sqrt{3}\cdot 2"),
    ("(x+1)^2", "x^2+2x+1"),
    ("x^2+2x+1", "(x+1)^2"),
    ("x+y", "y+x"),
    ("x(x+1)", "x^2+x"),
    (r"\pi/2", r"\frac{\pi}{2}"),
    ("1+2", "3"),
    ("3", "1+2"),
    ("6/2", "3"),
    ("3.0", "3"),
    ("(1, 2)", "(1,2)"),
    ("(1, 2]", "(1,2]"),
    ("(0.5, 2)", r"(\frac{1}{2}, 2)"),
    ("1, 2", "2, 1"),
    ("1 and 2", "1, 2"),
    ("1 or 2", "1,2"),
    (r"\{1, 2\}", r"\{2, 1\}"),
    (r"x \in [1,2]", "[1,2]"),
    (r"(-\infty, 3)", "x<3"),
    ("-5", "- 5"),
    ("- 5", "-5"),
    ("+5", "5"),
    ("5.", "5"),
    ("$5", "5"),
    (r"\$5", "5"),
    ("0", "0.0"),
    (r"\frac{x+1}{2}", "(x+1)/2"),
    ("2^{10}", "1024"),
    ("1024", "2^{10}"),
    ("10^6", "1000000"),
    ("3!", "6"),
    (r"\frac{-1}{2}", r"-\frac{1}{2}"),
    ("-1/2", r"\frac{-1}{2}"),
    (r"\begin{pmatrix} 1 \\ 2 \end{pmatrix}", r"\begin{pmatrix}1\\2\end{pmatrix}"),
    (r"\begin{array}{c}1\\2\end{array}", r"\begin{pmatrix}1\\2\end{pmatrix}"),
    (r"\left(1, 2\right)", "(1,2)"),
    (r"3 \leq x", r"3 \le x"),
    (r"\text{even}", "even"),
    ("the answer is 3", "3"),
    ("12:30", "12:30"),
    ("12.50", "12.5"),
    ("25/2", "12.5"),
    ("5 hours", "5"),
    ("5 minutes", "5"),
    (r"11\frac{1}{2}", "11.5"),
    ("i", "i"),
    ("3+4i", "4i+3"),
    ("a_1", "a_1"),
    (r"\frac{\sqrt{2}}{2}", r"\frac{1}{\sqrt{2}}"),
    ("e^x", "e^{x}"),
    (r"\log 2", r"\log(2)"),
    (r"7 \frac{3}{4}", "31/4"),
    ("2:3", "2/3"),
    ("2:3", "2:3"),
    ("0.5", r"50\%"),
    (r"50\%", "0.5"),
    (r"50\%", "1/2"),
    ("1:2", r"50\%"),
]
WRONG = [
    ("10 m/s", "10"),
    ("A", "B"),
    ("2x", "3x"),
    (r"2\pi", "6.28"),
    ("3.14", r"\pi"),
    ("(2, 1)", "(1,2)"),
    ("[1,2]", "(1,2)"),
    ("x>3", r"(3,\infty)"),
    ("2 million", "2000000"),
    ("5 dollars", "5"),
    ("0.333", "1/3"),
    (r"\frac{1}{3}", "0.3333"),
    ("three", "3"),
    ("1/0", "0"),
    ("x", ""),
    ("13", "12.5"),
    (r"1\,250", "1250"),
]
STRICTER = [(r"\frac{x+1}{2}", "x+1/2"), ("0.0000000001", "0")]
"""Pairs that GEM takes for equal, and that are not."""
ASK = """
import json, logging, sys
logging.disable(50)
from gem.utils.math_grader import grade
print(json.dumps([bool(grade(text, key, fast=False)) for text, key in json.load(sys.stdin)]))
"""


def judge(text: str, *keys: str, seconds: float = 30.0) -> Step:
    task = Task(id="x", prompt=(), data={"key": list(keys), "answer": keys[0], "worked": ""})
    return Math(verify="gem", seconds=seconds).start(task).step(Action(kind="answer", text=text))


@for_each("text, key", RIGHT)
def test_pairs_that_gem_takes_for_equal_are_right(text: str, key: str) -> None:
    assert judge(text, key).success


@for_each("text, key", [*WRONG, *STRICTER])
def test_pairs_that_gem_takes_for_different_are_wrong_and_so_are_its_mistakes(text: str, key: str) -> None:
    assert not judge(text, key).success


def test_gem_itself_says_so() -> None:
    python = os.environ.get("RLX_GEM_PYTHON")
    if not python:
        pytest.skip("RLX_GEM_PYTHON names no interpreter that has GEM")
    pairs = [*RIGHT, *WRONG, *STRICTER]
    done = subprocess.run([python, "-W", "ignore", "-c", ASK], input=json.dumps(pairs), capture_output=True, text=True)
    expected = [True] * len(RIGHT) + [False] * len(WRONG) + [True] * len(STRICTER)
    assert json.loads(done.stdout or "0") == expected, done.stderr[-2000:]


def test_any_of_several_keys_will_do() -> None:
    assert judge("5 miles", "6", "5").success


@for_each(
    "text",
    [
        *("9" * 15_000, "9^{9^{9^{9^9}}}", "(((9^9)^9)^9)^9^9", "99999999!", "\\sum_{n=1}^{10^{12}} n^{n}"),
        *("{" * 5000, "\\frac" * 3000, "\\sqrt{" * 2000 + "}" * 2000, "(" * 4000 + ")" * 4000, "-" * 9000),
        *("\x00\x1b", "\ud800", "__import__('os').system('touch /tmp/rlx-was-here')"),
        "().__class__.__base__.__subclasses__()",
    ],
)
def test_hostile_answers_are_wrong_in_bounded_time(text: str) -> None:
    assert judge(text, "3", seconds=1.0) == Step(done=True, success=False)
    assert judge("6 cm", "6").success
    assert not Path("/tmp/rlx-was-here").exists()


def test_forms_are_told_apart() -> None:
    answers = (r"50\%", "x=3", ".5", "5 km", r"\text{yes}")
    assert list(map(trim, answers)) == ["50", "3", r"\frac{1}{2}", "5", "yes"]
    answers = ("1e3", "1 1/2", r"2\sqrt{3}", "1,000", "1,2")
    assert list(map(simplify, answers)) == ["1000", "1+1/2", "2sqrt(3)", "1000", "1,2"]
    assert elements("(1,2]") == ["1", "2"]
    assert elements("f(1)(2)") == ["f(1)(2)"]
