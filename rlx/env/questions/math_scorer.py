"""math-verify in a contained process (rlx.tool.contain): its own limits of time are signals, which only a main thread
hears, and which no long operation does."""

from __future__ import annotations

import logging
import re
from typing import Any

from math_verify import parse, verify

PERCENT = re.compile(r"\s*([^%]{1,200}?)\s*\\?%\s*")


def answer(request: dict[str, Any]) -> bool:
    text = request["text"]
    return any(is_same(reading, key) for right in request["keys"] for reading, key in readings(text, right))


def is_same(text: str, key: str) -> bool:
    answer_expressions, right = (parse(box(part), parsing_timeout=None) for part in (text, key))
    return bool(verify(right, answer_expressions, timeout_seconds=None))


def readings(text: str, key: str) -> list[tuple[str, str]]:
    """Return an answer and a key without percent signs. If only one has the sign, also return a pair with a hundredth
    of its number. This is math-verify's rule, but its parser reads no percent in the version that Hydra allows."""
    parts = [PERCENT.fullmatch(side) for side in (text, key)]
    plain = text if parts[0] is None else parts[0][1], key if parts[1] is None else parts[1][1]
    if (parts[0] is None) == (parts[1] is None):
        return [plain]
    hundredth = (f"\\frac{{{plain[0]}}}{{100}}", plain[1]) if parts[0] else (plain[0], f"\\frac{{{plain[1]}}}{{100}}")
    return [plain, hundredth]


def box(text: str) -> str:
    return f"$\\boxed{{{text}}}$"


logging.disable(logging.CRITICAL)
answer({"keys": ["\\frac{1}{2}"], "text": "0.5"})  # has imported what is imported late, before any process is forked
