"""What flows refuses what cannot be, by the key a user typed."""

from __future__ import annotations

import math
from typing import Any

import pytest

from rlx.buttons import Buttons
from rlx.types import Sampling


@pytest.mark.parametrize(
    "bad",
    [
        {"temperature": -1.0},
        {"temperature": math.nan},
        {"temperature": math.inf},
        {"top_p": 0.0},
        {"top_p": 1.5},
        {"top_p": math.nan},
        {"top_k": -1},
        {"max_new_tokens": 0},
        {"max_context": 0},
    ],
)
def test_settings_that_mean_nothing_are_refused(bad: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=f"^{next(iter(bad))}=.*: expected "):
        Sampling(**bad)


@pytest.mark.parametrize(
    ("states", "told"),
    [
        ((), "there is no state"),
        (({},), "from state 0 no button leads to the end"),
        (({"1": 0},), "from state 0 no button leads to the end"),
        (({"1": 0, "=": None}, {"2": 1}), "from state 1 no button leads to the end"),
        (({"1": 2},), "'1' leads to state 2, and there are 1"),
        (({"1": -1},), "'1' leads to state -1"),
    ],
)
def test_buttons_from_which_no_argument_becomes_whole_are_refused(states: Any, told: str) -> None:
    with pytest.raises(ValueError, match=f"^buttons: {told}"):
        Buttons(states=states)
