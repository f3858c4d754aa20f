"""Views of an episode: the pieces of a protocol's context (rlx.protocol.history) that an observation holds.

    pieces        task  opening  [said 0]  seen 0  [said 1]  seen 1
    last          task  opening, then what came of each turn alone: seen 0, seen 1      (GEM without a wrapper)
    observations  task  opening            seen 0            seen 1                     (`concat`)
    history       task  opening   said 0   seen 0   said 1   seen 1                     (`concat_with_action`)
    chat          the same in messages, or as a tokenizer's chat template has them      (`concat_chat`)
    chat_on_reset the text of the first turn in the chat template, the rest as history   (`concat_chat_on_reset`)

A protocol's `window` holds in all but the first.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from typing import Any, Literal

from rlx.model.rendering import SameDay
from rlx.types import Piece

TODAY = re.compile(r"""strftime_now\(\s*(["'])(.*?)\1\s*\)""")
"""Calls of the clock in a chat template."""

View = Literal["last", "observations", "history", "chat", "chat_on_reset"]


def observations_of(pieces: Iterable[Piece]) -> str:
    return "".join(piece.text for piece in pieces if piece.turn is None)


def history_of(pieces: Iterable[Piece], replies: Sequence[str]) -> str:
    return "".join(text_of(piece, replies) for piece in pieces)


def text_of(piece: Piece, replies: Sequence[str]) -> str:
    """Return the text of a piece, or else the reply of its turn."""
    return piece.text if piece.text or piece.turn is None else replies[piece.turn]


def messages_of(pieces: Iterable[Piece], replies: Sequence[str]) -> list[dict[str, str]]:
    """Pieces of one role in a row are one message."""
    messages: list[dict[str, str]] = []
    for piece in pieces:
        text = text_of(piece, replies)
        if messages and messages[-1]["role"] == piece.role:
            messages[-1]["content"] += text
        else:
            messages.append({"role": piece.role, "content": text})
    return messages


def chat_on_reset_of(pieces: Iterable[Piece], replies: Sequence[str], tokenizer: Any) -> str:
    """Return the pieces before the first turn as messages in the chat template, and the rest as text."""
    first: list[Piece] = []
    rest: list[Piece] = []
    for piece in pieces:
        (rest if rest or piece.turn is not None else first).append(piece)
    return apply_template(messages_of(first, replies), tokenizer) + history_of(rest, replies)


def apply_template(messages: list[dict[str, str]], tokenizer: Any) -> str:
    """Return the messages as a model is spoken to, up to where it speaks. Messages of a tool or of the system are the
    user's where its template has none of them."""
    if "tool" not in str(getattr(tokenizer, "chat_template", "")):
        messages = [
            {**message, "role": "user" if message["role"] == "tool" else message["role"]} for message in messages
        ]
    if messages[0]["role"] == "system" and not has_system(tokenizer):
        messages = as_user(messages)
    return render(tokenizer, messages)


def render(tokenizer: Any, messages: list[dict[str, str]]) -> str:
    """Return the messages in the chat template, up to where the model speaks."""
    dated = with_same_day(getattr(tokenizer, "chat_template", None))
    options = {} if dated is None else {"chat_template": dated}
    return str(tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True, **options))


def with_same_day(template: Any) -> str | None:
    """Return a chat template that tells the date (Llama 3) with the date of training in it; None for all others.

    Training replaces the clock of the process that renders; this process and its clock belong to the user.
    """
    if not isinstance(template, str) or not TODAY.search(template):
        return None
    return TODAY.sub(lambda call: json.dumps(SameDay.now().strftime(call[2])), template)


def has_system(tokenizer: Any) -> bool:
    """Tell whether the chat template shows a message of the system; some refuse it, and some leave it out."""
    probe_messages = [{"role": role, "content": f"<{role}>"} for role in ("system", "user")]
    try:
        return "<system>" in render(tokenizer, probe_messages)
    except Exception:  # a template raises errors of its own
        return False


def as_user(messages: list[dict[str, str]]) -> list[dict[str, str]]:
    """Return the messages with the text of the first, the system's, before that of the user's first message."""
    system, *rest = messages
    if rest and rest[0]["role"] == "user":
        return [{**rest[0], "content": system["content"] + rest[0]["content"]}, *rest[1:]]
    return [{**system, "role": "user"}, *rest]
