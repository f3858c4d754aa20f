"""Thoughts, Python calls and answers in tags: `<think>`, `<python>`, `<observation>`, `<answer>`.

    agent:        <think>\\nI will ...\\n</think>\\n<python>\\n((44 - 35) * 19)\\n</python>
    environment:  \\n<observation>\\n171\\n</observation>\\n
    agent:        <think>\\n...\\n</think>\\n<answer>((19 + 35) + 44)</answer>

The form is that of "Cost-Aware Tool-Integrated Reasoning for Countdown Arithmetic", section 3.3.
"""

from __future__ import annotations

from dataclasses import dataclass

from rlx.protocol.blocks import Blocks


@dataclass(frozen=True, kw_only=True)
class Tags(Blocks):
    """The protocol of agents with a Python tool; `rlx.protocol.blocks.read` says what is a valid turn."""

    instruction: str = "Think in <think>, run Python in <python>, read its <observation>, and finish with <answer>."

    @property
    def tools(self) -> tuple[str, ...]:
        return ("python",)
