"""math-verify in a process of its own (rlx.env.apart): its own limits of time are signals, which only a main thread
hears, and which no long operation does."""

from __future__ import annotations

import logging
from typing import Any

from rlx.env.apart import serve


def answer(asked: dict[str, Any]) -> bool:
    from math_verify import parse, verify

    said = parse(boxed(asked["text"]), parsing_timeout=None)
    return any(verify(parse(boxed(key), parsing_timeout=None), said, timeout_seconds=None) for key in asked["keys"])


def boxed(text: str) -> str:
    return f"$\\boxed{{{text}}}$"


if __name__ == "__main__":
    logging.disable(logging.CRITICAL)
    answer({"keys": ["\\frac{1}{2}"], "text": "0.5"})  # what is imported late
    serve(answer)
