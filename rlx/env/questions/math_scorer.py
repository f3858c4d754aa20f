"""math-verify in a contained process (rlx.tool.contain): its own limits of time are signals, which only a main thread
hears, and which no long operation does."""

from __future__ import annotations

import logging
import re
from typing import Any

from math_verify import parse, verify

PERCENT = re.compile(r"\s*([^%]{1,200}?)\s*\\?%\s*")


def answer(asked: dict[str, Any]) -> bool:
    said = asked["text"]
    return any(is_same(one, key) for right in asked["keys"] for one, key in readings(said, right))


def is_same(text: str, key: str) -> bool:
    said, right = (parse(box(one), parsing_timeout=None) for one in (text, key))
    return bool(verify(right, said, timeout_seconds=None))


def readings(text: str, key: str) -> list[tuple[str, str]]:
    """Return an answer and a key without percent. Where one of them has it, it means its number or a hundredth of it.
    This is math-verify's rule, but its parser reads no percent in the version that Hydra allows."""
    parts = [PERCENT.fullmatch(one) for one in (text, key)]
    plain = text if parts[0] is None else parts[0][1], key if parts[1] is None else parts[1][1]
    if (parts[0] is None) == (parts[1] is None):
        return [plain]
    hundredth = (f"\\frac{{{plain[0]}}}{{100}}", plain[1]) if parts[0] else (plain[0], f"\\frac{{{plain[1]}}}{{100}}")
    return [plain, hundredth]


def box(text: str) -> str:
    return f"$\\boxed{{{text}}}$"


logging.disable(logging.CRITICAL)
answer({"keys": ["\\frac{1}{2}"], "text": "0.5"})  # has imported what is imported late, before any process is forked
