"""Find what a model's own chat template writes around messages, as ids, to be put around pieces of any context."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from typing import Any

from rlx.model.problem import ModelError
from rlx.model.rendering import render

Marks = Mapping[tuple[str, str], tuple[int, ...]]
"""Ids between the messages of one role and the next; from `""`, what stands before the first message, and to `""`, what
stands after the last. None of a model without a template."""

CONVERSATIONS = (
    ("user", "assistant", "user"),
    ("system", "user"),
    ("user", "assistant", "tool", "user"),
    ("user", "assistant", "tool"),
    ("user", "assistant"),
)
"""Roles of the messages that marks are found by."""
MARK = "\N{WHITE SQUARE}%d\N{WHITE SQUARE}"


def find_marks(tokenizer: Any) -> Marks:
    """Return the marks of a tokenizer's template: an assistant's message begins as the template prompts for it."""
    plain, system, tools, turn, ended = render(tokenizer, [messages_of(roles) for roles in CONVERSATIONS])
    head, _, back, answer = around(tokenizer, plain, CONVERSATIONS[0])
    marks = {("", "user"): head, ("user", "assistant"): answer, ("assistant", "user"): back}
    marks |= tool_marks(tokenizer, tools, turn)
    with suppress(ModelError):  # a template need not end with the assistant
        marks["assistant", ""] = around(tokenizer, ended, CONVERSATIONS[4])[-1]
    try:
        before, after, _ = around(tokenizer, system, CONVERSATIONS[1])
    except ModelError:  # a template need not know of systems
        return marks
    return {**marks, ("", "system"): before, ("system", "user"): after}


def tool_marks(tokenizer: Any, tools: str | None, turn: str | None) -> Marks:
    """Find the marks of a template that has messages of tools; none where it does not speak of tools, or wants more of
    a tool's message than its text."""
    if "tool" not in str(tokenizer.chat_template):
        return {}
    try:
        _, _, call, after, _ = around(tokenizer, tools, CONVERSATIONS[2])
        *_, answer = around(tokenizer, turn, CONVERSATIONS[3])
    except ModelError:
        return {}
    return {("assistant", "tool"): call, ("tool", "user"): after, ("tool", "assistant"): answer}


def messages_of(roles: Sequence[str]) -> list[dict[str, str]]:
    """Return one message per role, with the role's mark as its content."""
    return [{"role": role, "content": MARK % place} for place, role in enumerate(roles)]


def around(tokenizer: Any, text: str | None, roles: Sequence[str]) -> list[tuple[int, ...]]:
    """Return the ids before, between and after messages of these roles, up to where the assistant speaks; `text` is
    what the template made of them."""
    parts = re.split("|".join(re.escape(MARK % place) for place in range(len(roles))), text or "")
    if len(parts) != len(roles) + 1:
        raise ModelError("the tokenizer's chat template does not show every message; set model.chat=false")
    return [tuple(tokenizer.encode(part, add_special_tokens=False)) for part in parts]


def end_of_turn(tokenizer: Any, marks: Marks, eos_ids: Collection[int] = ()) -> int | None:
    """Return the id by which the model itself ends a turn: the chat template's, else the end of sequence.

    A template ends an assistant's message with an end of sequence or, as a base model's tokenizer may have it, with
    another special token. The last message may end in another way than earlier ones: gpt-oss ends a turn with
    <|return|>, and each message of a turn, its thoughts among them, with <|end|>. The end of sequence is the
    tokenizer's, unless the model's generation settings name others.
    """
    last, back = marks.get(("assistant", ""), ()), marks.get(("assistant", "user"), ())
    named = [token for token in (*last, *back) if token in eos_ids or token == tokenizer.eos_token_id]
    if named or (back and is_special(tokenizer, back[0])):
        return [*named, *back][0]
    if tokenizer.eos_token_id in eos_ids or not eos_ids:
        eos_id: int | None = tokenizer.eos_token_id
        return eos_id
    return next(iter(eos_ids))


def is_special(tokenizer: Any, token: int) -> bool:
    added = tokenizer.added_tokens_decoder.get(token)
    return added is not None and bool(added.special) and token != tokenizer.bos_token_id
