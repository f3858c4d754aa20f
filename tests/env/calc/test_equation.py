"""Answers of Countdown as models write them: what is read, and what no mark makes right."""

from __future__ import annotations

from fractions import Fraction
from itertools import product
from random import Random
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from rlx.env.calc.calc_countdown import CalcCountdown
from rlx.env.calc.equation import find_calculation, solves
from rlx.env.countdown.expression import random_candidate
from rlx.types import Action, Task
from tests.env.calc.forms import FORMS, HOSTILE
from tests.loops import for_each

NUMBERS, TARGET = [19, 44, 35], Fraction(98)
KEY = {"numbers": NUMBERS, "target": "98"}


def is_right(text: str) -> bool:
    task = Task(id="x", prompt=(), data={"key": KEY, "answer": "", "worked": ""})
    return CalcCountdown().start(task).step(Action(kind="answer", text=text)).success is True


@for_each(
    "form, said",
    product(
        FORMS,
        [
            "44+19+35",
            "(44 + 35) + 19",
            "98 = 44+19+35",
            "44+19+35 = 98",
            "44+19+35 = 98.000",
            "44 + 19 + 35 = 63 + 35 = 98",
        ],
    ),
)
def test_an_answer_is_read_in_each_form_and_as_either_side_of_an_equation(form: str, said: str) -> None:
    assert is_right(form.format(said))


@for_each(
    "form, said",
    product(
        FORMS,
        ["44+19+35 = 12", "44+19+35=99=98", "12 = 44+19+35", "44+19", "44-19+35", "98", "98 = 98", "44+19+35+0 = 98"],
    ),
)
def test_a_wrong_side_or_a_wrong_expression_is_wrong_in_each_form(form: str, said: str) -> None:
    assert not is_right(form.format(said))


@for_each(
    "text",
    [
        "44+19+35^1",
        "44+19+35 ^ 1",
        "44**1+19+35",
        "44+19**35",
        "44+19+35!",
        "44+19+35²",
        "√44+19+35",
        r"\sqrt{44}+19+35",
        "f(44+19+35)2",
        "44+19+35x",
        "44+19+35%",
        "44+19+35 ≠ 98",
        "98 ≠ 44+19+35",
        r"44+19+35 \approx 98",
        "44+19+35.5.3",
        "44+19+35 = = 98",
        "44+19+35)",
        "４4+19+35",
        "44 19 35",
        "44+19+35 or 44*19",
        "44+19+35 equals 12",
        "44+19+35 equals to 12",
        "44+19+35 is equal 12",
        "44+19+35 gives 12",
        "44+19+35 → 12",
        "44+19+35 := 12",
        "44+19+35 = [12]",
        "44+19+35\n= 12",
        "",
    ],
)
def test_what_means_something_else_is_wrong(text: str) -> None:
    assert not is_right(text)


@for_each(
    "text, read",
    [
        (r"\frac{44 \times 2}{4}", "((44 * 2)/(4))"),
        (r"\left(44 \div 2\right) \cdot 4 = 88", "(44 / 2) * 4 = 88"),
        ("44 × 2 ÷ 4 − 1", "44 * 2 / 4 - 1"),
        ("1,234 + 5", "1234 + 5"),
        ("an equation that equals 46 is 44 + 2", "44 + 2"),
        ("44 + 2, which equals 46.", "44 + 2"),
        ("44 + 2 == 46", "44 + 2 == 46"),
        ("44 + 2\n= 46", "44 + 2 = 46"),
        (r"\begin{align*}44 + 2 &= 40 + 6 \\ &= 46\end{align*}", "44 + 2 = 40 + 6 = 46"),
        ("44 + 2 gives 46", "44 + 2 = 46"),
        ("44 + 2 = 46\n\nThis uses 44 and 2, each once.", "44 + 2 = 46"),
    ],
)
def test_signs_are_read_as_models_write_them(text: str, read: str) -> None:
    assert find_calculation(text) == read


@given(st.integers(0, 10**6), st.sampled_from(FORMS), st.fractions(-(10**6), 10**6, max_denominator=1000))
def test_a_side_counts_by_its_value(seed: int, form: str, other: Fraction) -> None:
    made = random_candidate(NUMBERS, Random(seed), exact=True)
    target = Fraction(made.value)
    assert solves(form.format(made.text), NUMBERS, target)
    for equation in (f"{made.text} = {other}", f"{other} = {made.text}"):
        assert solves(form.format(equation), NUMBERS, target) == (other == target)


@given(HOSTILE)
def test_any_text_is_answered_and_only_the_numbers_make_it_right(text: str) -> None:
    if solves(text, NUMBERS, TARGET):
        assert all(str(number) in text for number in NUMBERS)


@given(HOSTILE, st.sampled_from(["44+19", "44+19+35 = 97", "44+19 = 98"]))
def test_no_text_before_makes_a_wrong_last_calculation_right(text: str, said: str) -> None:
    ended = text.replace("</answer>", "").replace("\\boxed", "")
    assert not solves(f"{ended}\n= {said}", NUMBERS, TARGET)


@for_each(
    "text",
    [
        mark * (20_000 // len(mark))
        for mark in ("(", "{", "\\frac{", "1 ", "*", "\\boxed{", "<a", "1,000", "1+", "\n", "**1")
    ]
    + ["\\frac{" * 1500 + "1" + "}{1}" * 1500, "1-" + "-(" * 9990],
)
def test_long_hostile_text_is_wrong(text: Any) -> None:
    assert not is_right(text)
