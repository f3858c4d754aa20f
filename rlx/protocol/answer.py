"""Text alone: a thought in `<think>`, then the `<answer>`. The protocol of the baselines without tools.

agent:        <think>\\n((44 - 35) * 19) = 171, which is not 98.\\n...\\n</think>\\n<answer>((19 + 35) + 44)</answer>
"""

from __future__ import annotations

from dataclasses import dataclass

from rlx.protocol.blocks import Blocks


@dataclass(frozen=True, kw_only=True)
class Answer(Blocks):
    """The protocol of agents without tools: `<python>` is text like any other here."""

    instruction: str | None = "Think in <think>, and finish with <answer>."
    """Line before the task's own text, or a system message with {goal} and {actions}."""
