"""Expressions: their values by another route, within their bounds, and their words, both ways."""

from __future__ import annotations

import re
from collections import Counter
from fractions import Fraction
from random import Random

from hypothesis import given
from hypothesis import strategies as st

from rlx.env.calc.expressions import BOUND, Draw, hear, speak, value_of
from rlx.tool.calculator import Calculator
from tests.errors import raises_naming
from tests.loops import for_each

DRAWS = st.builds(Draw, digits=st.integers(1, 6), parentheses=st.floats(0.0, 1.0), places=st.integers(0, 3))


@given(DRAWS, st.integers(1, 6), st.integers(0, 10**6))
def test_a_value_is_exact_small_and_what_the_expression_is_worth(draw: Draw, num: int, seed: int) -> None:
    text, value = draw.expression(Random(seed), num)
    assert value == Fraction(
        eval(re.sub(r"\d+", lambda number: f"Fraction({number[0]})", text), {"Fraction": Fraction})
    )
    assert abs(value) < BOUND
    assert (value * 10**draw.places).denominator == 1
    assert len(re.findall(r"[-+*/]", text)) == num
    assert all(0 < int(number) < 10**draw.digits for number in re.findall(r"\d+", text))
    assert Fraction(Calculator(max_length=200).run(text).output) == value


@given(DRAWS, st.integers(1, 6), st.integers(0, 10**6))
def test_what_is_said_in_words_is_heard(draw: Draw, num: int, seed: int) -> None:
    text, _ = draw.expression(Random(seed), num)
    said = speak(text, Random(seed))
    assert hear(said) == text
    assert not re.search(r" [-+*/] ", said)


def test_words_by_hand() -> None:
    assert hear("twelve plus 5 times (three hundred forty-two minus 1)") == "12 + 5 * (342 - 1)"
    assert hear("sixty-one thousand divided by two divided by 7") == "61000 / 2 / 7"
    assert value_of("7 / (3 - 3)") is None


def test_parts_are_in_parentheses_as_often_as_asked_and_signs_are_drawn_evenly() -> None:
    texts = [Draw(digits=3).grow(Random(seed), 2, 2, 0.0) for seed in range(2000)]
    assert 0.27 < sum("(" in text for text in texts) / len(texts) < 0.33
    signs = Counter(re.findall(r"[-+*/]", "".join(texts)))
    assert all(0.22 < signs[sign] / signs.total() < 0.28 for sign in "+-*/")


def test_division_stays_though_most_of_it_would_leave_a_rest() -> None:
    texts = [Draw(digits=5).expression(Random(seed), 3)[0] for seed in range(300)]
    assert sum("/" in text for text in texts) > 60


@for_each(
    "keys, place",
    [
        ({"digits": 0}, "digits=0"),
        ({"digits": 7}, "digits=7"),
        ({"digits": 2, "places": 4}, "places=4"),
        ({"digits": 2, "parentheses": 2}, "parentheses=2"),
    ],
)
def test_what_cannot_be_drawn_is_refused(keys: dict[str, int], place: str) -> None:
    with raises_naming(ValueError, place):
        Draw(**keys)
