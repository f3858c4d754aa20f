"""Thoughts, calls of tools, actions and answers in tags: `<think>`, `<python>`, `<observation>`, `<answer>`.

    agent:        <think>\\nI will ...\\n</think>\\n<python>\\n((44 - 35) * 19)\\n</python>
    environment:  \\n<observation>\\n171\\n</observation>\\n
    agent:        <think>\\n...\\n</think>\\n<answer>((19 + 35) + 44)</answer>

The form is that of "Cost-Aware Tool-Integrated Reasoning for Countdown Arithmetic", section 3.3. Which tools and
actions there are, the environment says; each is a tag of its own.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

from rlx.protocol.blocks import ANSWER, OBSERVATION, THINK, Blocks, calls_in, invalid
from rlx.protocol.thought import outside
from rlx.types import Action, Verb


@dataclass(frozen=True, kw_only=True)
class Tags(Blocks):
    """A tag for each tool that is lent and each action that is declared; `rlx.protocol.blocks.find_block` says what is
    a valid turn."""

    instruction: str | None = None
    """The line before the task's own text, or a system message with {goal} and {actions}; null: what the
    environment's own tools and actions are for."""
    tool_verbs: tuple[Verb, ...] = ()
    """Tools of the environment, set by `bind`."""

    def bind(self, tools: tuple[Verb, ...], actions: tuple[Verb, ...]) -> Tags:
        refuse_names([verb.name for verb in (*tools, *actions)])
        return replace(self, tool_verbs=tools, declared=actions)

    @property
    def tools(self) -> tuple[str, ...]:
        return tuple(verb.name for verb in self.tool_verbs)

    @property
    def acts(self) -> tuple[str, ...]:
        return tuple(verb.name for verb in self.declared if verb.name != ANSWER)

    @property
    def entries(self) -> dict[str, tuple[str, str]]:
        """Opening texts of the acting blocks, by name (`Dialect.entries`)."""
        return {name: ("", f"<{name}>") for name in (*self.tools, *self.acts)}

    def may_enter(self, name: str, pieces: Sequence[str], opened: str = "") -> list[bool]:
        """Tell for each piece of a turn whether the block `name`, begun before the piece, would be read as its action.

        It would not be within a thought or another block, nor within a tag. `opened` is what a chat template wrote.
        """
        text = opened + "".join(pieces)
        tags = [tag.span() for tag in re.finditer(rf"</?(?:{'|'.join((THINK, OBSERVATION, *self.blocks))})>", text)]
        answers: list[bool] = []
        position = len(opened)
        for piece in pieces:
            is_within = any(start < position < end for start, end in tags)
            answers.append(not is_within and self.begins_block(name, text[:position]))
            position += len(piece)
        return answers

    def begins_block(self, name: str, text: str) -> bool:
        """Tell whether a block after this beginning of a turn would be its action, and the first of its blocks."""
        outside_text = outside(text) if self.reasoning else text
        read = self.read(f"{text}<{name}></{name}>")
        is_first = not any(f"<{block}>" in outside_text for block in self.blocks)
        return is_first and read.kind in ("call", "act") and read.name == name

    @property
    def blocks(self) -> tuple[str, ...]:
        answers = not self.declared or any(verb.name == ANSWER for verb in self.declared)
        return (*self.tools, *self.acts, *([ANSWER] if answers else []))

    def otherwise(self, text: str, why: str) -> Action:
        """A reasoning model may call a tool in a block of code with the tool's label."""
        outside_text = outside(text) if self.reasoning and self.tool_verbs else ""
        return next(calls_in(outside_text, self.tools), None) or invalid(why)

    @property
    def introduction(self) -> str:
        return self.instruction if self.instruction is not None else instruct(self.tool_verbs, self.declared)


def instruct(tool_verbs: tuple[Verb, ...], declared: tuple[Verb, ...]) -> str:
    """Say what can be said, and in which tag."""
    verbs = [verb for verb in (*tool_verbs, *declared) if verb.name != ANSWER]
    steps = ["Think in <think>", *(f"{verb.description} in <{verb.name}>" for verb in verbs)]
    steps += ["read its <observation>"] if verbs else []
    if not declared or len(verbs) < len(tool_verbs) + len(declared):
        steps.append("finish with <answer>")
    return f"{', '.join(steps[:-1])}, and {steps[-1]}."


def refuse_names(names: list[str]) -> None:
    """A tag has a name of its own, which is a word."""
    for name, num in Counter(names).items():
        if not re.fullmatch(r"[A-Za-z]\w*", name, re.ASCII) or name in (THINK, OBSERVATION):
            raise ValueError(f"env: an action named {name!r:.60} cannot be a tag: expected a word other than think")
        if num > 1:
            raise ValueError(f"env: {num} of its tools and actions are named {name!r}: a tag is one of them")
