r"""Free text, and in its last block of code what is meant: the form of programs.

    environment:  Print the sum of two numbers.\n
    agent:        I read both and add them.\n```python\nprint(int(input()) + int(input()))\n```

Of several blocks the last that is labelled `language` counts, else the last of all. A turn without a block is invalid,
as in GEM: text around a program is no program. A tool is called in a tag of its own, which ends the turn.
"""

from __future__ import annotations

from dataclasses import dataclass

from rlx.base.fences import PYTHON, last_block
from rlx.protocol.free import Free
from rlx.types import Action


@dataclass(frozen=True, kw_only=True)
class Fenced(Free):
    """A thought, then a block of code; a call of a tool in its tag."""

    language: str = "python"
    """Label of the block that counts; where no block has it, the last block."""

    @property
    def place(self) -> str:
        return f"a ```{self.language} block"

    def extract(self, text: str) -> str | None:
        return last_block(text, PYTHON if self.language in PYTHON else (self.language,))

    def wrap(self, text: str) -> str:
        return f"```{self.language}\n{text}\n```"

    def gap(self, action: Action) -> str:
        return " " if action.kind == "call" else "\n"
