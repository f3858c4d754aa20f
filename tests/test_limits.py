import math
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlx.limits import above, at_least, within


@given(st.floats() | st.integers())
def test_limits_pass_just_the_finite_numbers_they_name(value: float) -> None:
    assert passes(at_least, value) == (math.isfinite(value) and value >= 1)
    assert passes(above, value) == (math.isfinite(value) and value > 1)


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


@pytest.mark.parametrize("value", [-0.1, 1.1, math.nan, math.inf])
def test_a_share_is_from_zero_to_one(value: float) -> None:
    within(0, 1, share=0.0, other=1.0)
    with pytest.raises(ValueError, match=f"^share={value}: expected a number from 0 to 1$"):
        within(0, 1, share=value)
