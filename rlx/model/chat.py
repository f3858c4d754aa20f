"""What a model's own chat template writes around messages, as ids: found once, put around pieces of any context."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from rlx.model.problem import ModelError

Marks = Mapping[tuple[str, str], tuple[int, ...]]
"""From one role to the next: what stands between their messages; from `""`, what stands before the first. None of a
model without a template."""

MARK = "\N{WHITE SQUARE}%d\N{WHITE SQUARE}"


def find_marks(tokenizer: Any) -> Marks:
    """The marks of a tokenizer's template: an assistant's message begins as the template prompts for it."""
    head, _, back, turn = around(tokenizer, ("user", "assistant", "user"))
    marks = {("", "user"): head, ("user", "assistant"): turn, ("assistant", "user"): back, **tool_marks(tokenizer)}
    try:
        before, after, _ = around(tokenizer, ("system", "user"))
    except ModelError:  # a template need not know of systems
        return marks
    return {**marks, ("", "system"): before, ("system", "user"): after}


def tool_marks(tokenizer: Any) -> Marks:
    """Find the marks of a template that has messages of tools; none where it does not speak of tools, or wants more of
    a tool's message than its text."""
    if "tool" not in str(tokenizer.chat_template):
        return {}
    try:
        _, _, call, after, _ = around(tokenizer, ("user", "assistant", "tool", "user"))
        *_, turn = around(tokenizer, ("user", "assistant", "tool"))
    except ModelError:
        return {}
    return {("assistant", "tool"): call, ("tool", "user"): after, ("tool", "assistant"): turn}


def around(tokenizer: Any, roles: Sequence[str]) -> list[tuple[int, ...]]:
    """The ids before, between and after messages of these roles, up to where the assistant speaks."""
    messages = [{"role": role, "content": MARK % place} for place, role in enumerate(roles)]
    try:
        text = str(tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True))
    except Exception as error:  # a template raises what it likes
        raise ModelError(
            f"the tokenizer's chat template fails: {type(error).__name__}; set model.chat=false"
        ) from error
    parts = re.split("|".join(re.escape(message["content"]) for message in messages), text)
    if len(parts) != len(roles) + 1:
        raise ModelError("the tokenizer's chat template does not show every message; set model.chat=false")
    return [tuple(tokenizer.encode(part, add_special_tokens=False)) for part in parts]


def end_of_turn(tokenizer: Any, marks: Marks, eos_ids: Collection[int] = ()) -> int | None:
    """Return the id by which the model itself ends a turn: the chat template's, else the end of sequence.

    A template ends an assistant's message with an end of sequence or, as a base model's tokenizer may have it, with
    another special token. The end of sequence is the tokenizer's, unless the model's generation settings name others.
    """
    back = marks.get(("assistant", "user"), ())
    named = [one for one in back if one in eos_ids or one == tokenizer.eos_token_id]
    if named or (back and is_special(tokenizer, back[0])):
        return [*named, *back][0]
    if tokenizer.eos_token_id in eos_ids or not eos_ids:
        own: int | None = tokenizer.eos_token_id
        return own
    return next(iter(eos_ids))


def is_special(tokenizer: Any, token: int) -> bool:
    added = tokenizer.added_tokens_decoder.get(token)
    return added is not None and bool(added.special) and token != tokenizer.bos_token_id
