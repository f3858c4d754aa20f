"""Numbers as answers write them."""

from __future__ import annotations

from fractions import Fraction
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlx.env.questions.number import one_operation, read_number, write_number
from tests.loops import for_each


@for_each(
    "text, value",
    [
        ("12", 12),
        (" -7. ", -7),
        ("1,250", 1250),
        ("1,234,567.5", Fraction(2469135, 2)),
        ("0.1", Fraction(1, 10)),
        (".5", Fraction(1, 2)),
        ("3/4", Fraction(3, 4)),
        ("-3 / 4", Fraction(-3, 4)),
        (r"\frac{3}{4}", Fraction(3, 4)),
        (r"-\dfrac{3}{4}", Fraction(-3, 4)),
        ("$18", 18),
        (r"\$1,000.50", Fraction(2001, 2)),
        ("25%", Fraction(1, 4)),
        (r"25\%", Fraction(1, 4)),
        ("007", 7),
        ("1\u00a0250", 1250),
        ("$12$", 12),
    ],
)
def test_a_number_is_read_exactly(text: str, value: Fraction) -> None:
    assert read_number(text) == value


@for_each(
    "text",
    [
        *("", " ", "-", ".", "x", "1e5", "٣", "12,50", "1,25,0", "3/0"),
        *("nan", "inf", "1_000", "0x1f", "9" * 300, "1.2.3", "5 dollars"),
    ],
)
def test_what_is_no_number_is_none(text: str) -> None:
    assert read_number(text) is None


@given(st.fractions(min_value=-(10**12), max_value=10**12, max_denominator=10**6))
def test_a_number_that_is_written_is_read_again(value: Fraction) -> None:
    assert read_number(write_number(value)) == value


@given(st.text(max_size=300))
def test_any_text_is_a_number_or_none(text: str) -> None:
    found = read_number(text)
    assert found is None or isinstance(found, Fraction)


@pytest.mark.parametrize(
    ("value", "text"), [(Fraction(25, 2), "12.5"), (Fraction(-1, 20), "-0.05"), (Fraction(1, 3), "1/3")]
)
def test_a_number_is_written_as_a_decimal_where_that_is_exact(value: Fraction, text: str) -> None:
    assert write_number(value) == text


def test_one_operation_is_on_two_of_the_first_numbers() -> None:
    assert sorted(map(int, one_operation([6, 4, 6], 20, Random(0)))) == [0, 1, 2, 8, 10, 12, 16, 24, 36]
    assert max(map(int, one_operation(range(1, 20_000), 10**4, Random(0)))) == 64 * 64
