"""What numbers may be, checked by the type that owns them when it is made. The message is for the user who typed the
key: `clip=-0.2: expected a number above 0`; `rlx.config` puts the key's place in the configuration before it.

A value of None was allowed to be null and passes; nan and infinity never do.
"""

from __future__ import annotations

import math


def at_least(low: float, **values: float | None) -> None:
    """Each is a finite number, `low` or more."""
    for name, value in values.items():
        if value is not None and not low <= value < math.inf:
            refuse(name, value, f"{_kind(low, value)}, at least {low}")


def above(low: float, **values: float | None) -> None:
    """Each is a finite number greater than `low`."""
    for name, value in values.items():
        if value is not None and not low < value < math.inf:
            refuse(name, value, f"a number above {low}")


def within(low: float, high: float, **values: float | None) -> None:
    """Each is a number from `low` to `high`, both allowed."""
    for name, value in values.items():
        if value is not None and not low <= value <= high:
            refuse(name, value, f"{_kind(low, value)} from {low} to {high}")


def refuse(name: str, value: object, expected: str) -> None:
    """The ValueError of a value that cannot be, in one line."""
    raise ValueError(f"{name}={value}: expected {expected}")


def _kind(low: float, value: float) -> str:
    return "an integer" if isinstance(low, int) and isinstance(value, int) else "a number"
