"""Ranges of numbers, checked by the type that owns them when it is made. The message is for the user who typed the
key: `clip=-0.2: expected a number above 0`; `rlx.settings` puts the key's place in the configuration before it.

A value of None was allowed to be null and passes; nan and infinity never do. A limit that is a float is of numbers, one
that is an int of integers where the value is one. Of a name that is not known, `near` says which ones are.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from typing import Annotated, Any

MAX_NAMES = 25
"""Names that a message gives where none is close."""
MAX_CHARACTERS = 200
"""Characters of a wrong value that a message repeats."""
CONSENT = "needs the user's own word"
"""Mark of a parameter that decides what code runs, how confined, which server is asked, and where a run is uploaded. A
configuration from a run folder may set it to what rlx ships, or to what the user repeats on the command line
(rlx/settings/consent.py)."""
Program = Annotated[str, CONSENT]
"""Path of a program that is started."""
Module = Annotated[str, CONSENT]
"""Module or package that is imported, or that pip is told to install."""
Address = Annotated[str, CONSENT]
"""Address of a server that is asked."""
Switch = Annotated[bool, CONSENT]
"""Flag that loosens a container."""
ForeignOptions = Annotated[Mapping[str, Any], CONSENT]
"""Options of a package that may import or start what they name."""


class MistakeError(ValueError):
    """A request that cannot be met; the message is one line with the mistake, its place and the remedy."""

    exit_code = 2


LARGEST = 1e30
"""Upper limit of numbers without a limit of their own; products of such numbers stay within a float32."""
LARGEST_SEED = 2**63 - 1
MANY = 10**6
"""Upper limit of counts that only memory and time limit."""


def at_least(low: float, /, **values: float | None) -> None:
    """Each is a finite number, `low` or more."""
    for name, value in values.items():
        if value is not None and not low <= value <= LARGEST:
            refuse(name, value, f"{_kind(low, value)}, at least {plain(low)}{_up_to(value)}")


def above(low: float, high: float = LARGEST, /, **values: float | None) -> None:
    """Each is a finite number greater than `low`, and at most `high`."""
    for name, value in values.items():
        if value is not None and not low < value <= high:
            limit = f" and at most {plain(high)}" if high < LARGEST else _up_to(value)
            refuse(name, value, f"a number above {plain(low)}{limit}")


def within(low: float, high: float, /, **values: float | None) -> None:
    """Each is a number from `low` to `high`, both allowed."""
    for name, value in values.items():
        if value is not None and not low <= value <= high:
            refuse(name, value, f"{_kind(low, value)} from {plain(low)} to {plain(high)}")


def each_once(**values: Iterable[str]) -> None:
    """Each is a list of different texts."""
    for name, texts in values.items():
        if len(set(all_texts := list(texts))) < len(all_texts):
            refuse(name, all_texts, "each of them once")


def not_empty(**values: Iterable[str]) -> None:
    """Each is a list of texts, none of them empty."""
    for name, texts in values.items():
        if "" in (all_texts := list(texts)):
            refuse(name, all_texts, "texts that are not empty")


def refuse(name: str, value: object, expected: str) -> None:
    """Raise a ValueError for an invalid value; the message is one printable line."""
    raise ValueError(f"{name}={to_text(value)}: expected {expected}")


def to_text(value: object) -> str:
    """Return a value's text, without its end if it is long, and with escapes for what cannot be printed."""
    text = str(value)
    cut = text if len(text) <= MAX_CHARACTERS else f"{text[:MAX_CHARACTERS]}…"
    return cut if cut.isprintable() else "".join(c if c.isprintable() else repr(c)[1:-1] for c in cut)


def near(name: str, names: Iterable[str]) -> str:
    """`; did you mean …?` with close names, or what there is, where none is close."""
    sorted_names = sorted(set(names))
    close = difflib.get_close_matches(name, sorted_names, n=4, cutoff=0.5)
    if close:
        return f"; did you mean {', '.join(close)}?"
    more = f" and {len(sorted_names) - MAX_NAMES} more" if len(sorted_names) > MAX_NAMES else ""
    return f"; there is {', '.join(sorted_names[:MAX_NAMES])}{more}" if sorted_names else ""


def plain(number: float) -> str:
    """Return a limit as a user writes it: 1000000 and 0.01, never 1000000.0 or 1e+06."""
    return str(number) if isinstance(number, int) else f"{number:.15g}"


def _kind(low: float, value: float) -> str:
    return "an integer" if isinstance(low, int) and isinstance(value, int) else "a number"


def _up_to(value: float) -> str:
    return f" and at most {plain(LARGEST)}" if value > LARGEST else ""
