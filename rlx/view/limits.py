"""Limits of what the page is sent, so that no file of a stranger's run makes it slow."""

from __future__ import annotations

import json
import math
from typing import Any

MOST_TEXT = 1_000_000
"""Characters of one text."""
MOST_PICTURED = 8_000_000
"""Characters of an episode's pictures."""
MOST_TOKENS = 65_536
"""Tokens of one turn."""
MOST_MEMBERS = 1024
"""Episodes of a group."""
MOST_NAMES = 2000
"""Metrics of a run."""
MOST_METRICS = 2**24
"""Bytes of metrics in one answer; the next answer goes on."""


def dump(value: Any) -> bytes:
    """Return a value as JSON in ASCII: lone surrogates and control characters are escaped."""
    return json.dumps(value, separators=(",", ":"), allow_nan=False).encode()


def plain(value: Any) -> float | int | None:
    """Return a number that JSON and a browser have; None for any other value."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    if isinstance(value, int):
        return value if abs(value) <= 2**53 else None
    return value if math.isfinite(value) else None


def bounded(value: Any, depth: int = 0) -> Any:
    """Return a value of JSON without numbers that a browser lacks and without long texts."""
    if isinstance(value, str):
        return value[:MOST_TEXT]
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, int | float):
        return plain(value)
    if depth > 50:
        return "…"
    if isinstance(value, dict):
        return {str(key): bounded(child, depth + 1) for key, child in value.items()}
    return [bounded(child, depth + 1) for child in value] if isinstance(value, list | tuple) else str(value)
