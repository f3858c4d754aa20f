r"""Readers of a turn's answer by GEM's names, for code that was written for GEM.

extract_last_boxed_answer(r"so \boxed{3}")    3        extract_last_tagged_answer("<answer>3</answer>")    3
extract_code_from_model("```python\nx\n```")  x        each returns None where there is no answer
"""

from __future__ import annotations

from rlx.base.fences import blocks_in, last_between
from rlx.protocol.boxed import last_box

TERMINAL_STATE = "<｜TERMINAL_STATE｜>"
"""Observation after the end of an episode, in environments that were written for GEM."""


def extract_last_boxed_answer(solution: str) -> str | None:
    r"""Return what the last \boxed{} holds."""
    return last_box(solution)


def extract_code_from_model(model_response: str) -> str | None:
    """Return the last block of code."""
    blocks = list(blocks_in(model_response))
    return blocks[-1].code.strip() if blocks else None


def extract_last_tagged_answer(model_response: str) -> str | None:
    """Return what stands between the last `<answer>` and `</answer>`."""
    answer = last_between(model_response, "<answer>", "</answer>")
    return None if answer is None else answer.strip()
