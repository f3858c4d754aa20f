"""What flows refuses what cannot be, by the key a user typed."""

from __future__ import annotations

import math
from typing import Any

import pytest

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
