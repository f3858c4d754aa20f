"""math-verify in a contained process (rlx.contain): its own limits of time are signals, which only a main thread hears,
and which no long operation does."""

from __future__ import annotations

import logging
from typing import Any

from math_verify import parse, verify


def answer(asked: dict[str, Any]) -> bool:
    said = parse(box(asked["text"]), parsing_timeout=None)
    return any(verify(parse(box(key), parsing_timeout=None), said, timeout_seconds=None) for key in asked["keys"])


def box(text: str) -> str:
    return f"$\\boxed{{{text}}}$"


logging.disable(logging.CRITICAL)
answer({"keys": ["\\frac{1}{2}"], "text": "0.5"})  # has imported what is imported late, before any process is forked
