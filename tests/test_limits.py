import math
from collections.abc import Callable
from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlx.base.limits import LARGEST, above, at_least, refuse, within
from tests.errors import raises_naming
from tests.loops import for_each


@given(st.floats() | st.integers())
def test_limits_pass_just_the_finite_numbers_they_name(value: float) -> None:
    assert passes(at_least, value) == (1 <= value <= LARGEST)
    assert passes(above, value) == (1 < value <= LARGEST)


def passes(check: Callable[..., None], value: float) -> bool:
    try:
        check(1, key=value)
    except ValueError as error:
        return not str(error).startswith(f"key={value}: expected ")
    return True


def test_what_may_be_null_passes_as_null() -> None:
    at_least(0, key=None)
    above(0, key=None)
    within(0, 1, key=None)


@for_each("value", [-0.1, 1.1, math.nan, math.inf])
def test_a_share_is_from_zero_to_one(value: float) -> None:
    within(0, 1, share=0.0, other=1.0)
    with raises_naming(ValueError, f"share={value}", "0 to 1"):
        within(0, 1, share=value)


@for_each(
    "check, value, expected",
    [
        (partial(at_least, 1), 0, ["integer", 1]),
        (partial(at_least, 0.0), -1, ["number", 0]),
        (partial(at_least, 0), math.inf, ["number", 0, "1e+30"]),
        (partial(above, 0, 1), 2, ["number", 0, 1]),
        (partial(within, 1, 10**6), 10**7, ["integer", "1 to 1000000"]),
        (partial(within, 0.01, 1.0), 3, ["number", "0.01 to 1"]),
    ],
)
def test_what_was_expected_is_said_as_one_writes_it(
    check: Callable[..., None], value: float, expected: list[object]
) -> None:
    with raises_naming(ValueError, f"key={value}", *expected):
        check(key=value)


def test_a_large_whole_limit_is_written_in_full() -> None:
    with raises_naming(ValueError, "seed=-1", 2**63 - 1):
        within(0, 2**63 - 1, seed=-1)


@for_each(
    "value, text",
    [
        ("\x1b[31mred\n", r"\x1b[31mred\n"),
        ("\ud800", r"\ud800"),
        ("x" * 10**6, "x" * 200 + "…"),
        ("左转 <b>", "左转 <b>"),
        (1.5, "1.5"),
    ],
)
def test_a_refused_value_is_shown_as_a_terminal_may_show_it(value: object, text: str) -> None:
    with pytest.raises(ValueError, match=r"^key=") as error:
        refuse("key", value, "another")
    assert str(error.value) == f"key={text}: expected another"
