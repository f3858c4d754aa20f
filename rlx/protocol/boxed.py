r"""Free text with the action in its last \boxed{}: the form of GEM and of mathematics.

    environment:  It is a number from 1 to 50.\n
    agent:        I halve what is left: \boxed{25}
    environment:  \nlower\n

The box holds the same text as a turn of `rlx.protocol.direct`. If the environment declares one action that takes an
argument, the text is this argument. With other declared actions it is an action's name and argument; without any it is
the answer. A tool is called in its tag, which ends the turn: `<python>print(6 * 7)</python>`. A code block labelled
with the tool's name is a call too, because models write ```python unprompted. The call that ends first counts, and a
box beside it does not.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from rlx.protocol.blocks import calls_in
from rlx.protocol.free import Free
from rlx.types import Action

BOX = re.compile(r"\\(?:boxed|fbox)\s*\{")


@dataclass(frozen=True, kw_only=True)
class Boxed(Free):
    r"""Thought, then \boxed{}; a tool is called in its tag."""

    @property
    def place(self) -> str:
        return r"\boxed{}"

    def extract(self, text: str) -> str | None:
        return last_box(text)

    def wrap(self, text: str) -> str:
        return f"\\boxed{{{text}}}"

    def call_in(self, turn: str) -> Action | None:
        """Return the call that ends first: a block of code ends before the tag that ends the turn."""
        return next(calls_in(turn, self.tools), None) or super().call_in(turn)


def last_box(text: str) -> str | None:
    r"""Return the content of the last \boxed{}, with balanced braces; None without a closed box."""
    position = text.rfind("\\")
    while position >= 0 and BOX.match(text, position) is None:
        position = text.rfind("\\", 0, position)
    if position < 0:
        return None
    start = text.index("{", position) + 1
    end = text.find("}", start)
    if end < 0:
        return None
    if text.find("{", start, end) < 0:
        return text[start:end]
    depth = 1
    for brace in re.finditer(r"[{}]", text[start:]):
        depth += 1 if brace[0] == "{" else -1
        if depth == 0:
            return text[start : start + brace.start()]
    return None
