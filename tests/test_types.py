"""What flows refuses what cannot be, by the key a user typed."""

from __future__ import annotations

import math
from typing import Any

from rlx.base.buttons import Buttons
from rlx.types import Sampling
from tests.errors import raises_naming
from tests.loops import for_each


@for_each(
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
    with raises_naming(ValueError, f"{next(iter(bad))}="):
        Sampling(**bad)


@for_each(
    "states, names",
    [
        ((), ["no state"]),
        (({},), ["state 0", "the end"]),
        (({"1": 0},), ["state 0", "the end"]),
        (({"1": 0, "=": None}, {"2": 1}), ["state 1", "the end"]),
        (({"1": 2},), ["'1'", "state 2"]),
        (({"1": -1},), ["'1'", "state -1"]),
    ],
)
def test_buttons_from_which_no_argument_becomes_whole_are_refused(states: Any, names: list[str]) -> None:
    with raises_naming(ValueError, "buttons:", *names):
        Buttons(states=states)
