"""What a model's own chat template writes around messages, as ids: found once, put around pieces of any context."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from rlx.model.problem import ModelError

Marks = Mapping[tuple[str, str], tuple[int, ...]]
"""From one role to the next: what stands between their messages; from `""`, what stands before the first. None of a
model without a template."""

MARK = "\N{WHITE SQUARE}%d\N{WHITE SQUARE}"


def find_marks(tokenizer: Any) -> Marks:
    """The marks of a tokenizer's template: an assistant's message begins as the template prompts for it."""
    head, _, back, turn = around(tokenizer, ("user", "assistant", "user"))
    marks = {("", "user"): head, ("user", "assistant"): turn, ("assistant", "user"): back}
    try:
        before, after, _ = around(tokenizer, ("system", "user"))
    except ModelError:  # a template need not know of systems
        return marks
    return {**marks, ("", "system"): before, ("system", "user"): after}


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
