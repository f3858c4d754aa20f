"""Thoughts of reasoning models, between <think> and </think>. Their text is no part of the answer.

    <think>perhaps 4 \\boxed{4}</think> It is \\boxed{5}     ->   It is \\boxed{5}
    perhaps 4 \\boxed{4}</think> It is \\boxed{5}            ->   It is \\boxed{5}
    <think>perhaps 4 \\boxed{4}                             ->   nothing

The second form comes from a chat template that opens the thought.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache

OPENS, CLOSES = "<think>", "</think>"
MARK = re.compile("<(/?)think>")


def outside(text: str) -> str:
    """Return the text outside of thoughts. A thought without an opening tag began before the text; one without a
    closing tag extends to the end."""
    if "think>" not in text:
        return text
    pieces: list[str] = []
    start, thinks = 0, False
    for mark in MARK.finditer(text):
        if not thinks and mark[1]:
            pieces.clear()
        elif not thinks:
            pieces.append(text[start : mark.start()])
        thinks, start = not mark[1], mark.end()
    return "\n".join(pieces if thinks else [*pieces, text[start:]])


def within_thought(text: str) -> str:
    """Return the text of a turn as it continues after an open thought."""
    return text.removeprefix(OPENS).removeprefix("\n") if text.startswith(OPENS) else f"{CLOSES}\n{text}"


def up_to_stop(text: str, stops: Sequence[str]) -> str:
    """Return the text up to the end of the first stop string outside of thoughts."""
    if not stops:
        return text
    thinks = False
    for mark in pattern_of(tuple(stops)).finditer(text):
        if mark[0] in (OPENS, CLOSES):
            thinks = mark[0] == OPENS
        elif not thinks:
            return text[: mark.end()]
    return text


@lru_cache
def pattern_of(stops: tuple[str, ...]) -> re.Pattern[str]:
    return re.compile("|".join(map(re.escape, (OPENS, CLOSES, *stops))))
