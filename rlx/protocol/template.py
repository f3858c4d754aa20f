r"""Prompt templates: one user message that holds a whole episode, with a template's words around it.

    user        You are playing language games. Make valid actions to win.
                Observation: {episode}
                Please reason step by step, and put your final answer within \boxed{}.
    assistant   the turn

GEM (Liu et al. 2025, arXiv:2510.01051) writes its prompts so. Every turn has a new message, which is no continuation of
the turn before: each turn is a transition of its own, and is trained after its own context.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from rlx.types import Piece

EPISODE = "{episode}"
"""Place of the episode's text in a template."""
BOXED = "\nPlease reason step by step, and put your final answer within \\boxed{}."
CODE = (
    "You are an expert Python programmer. You will be given a question (problem specification) and will generate a "
    f"correct Python program that matches the specification and passes all tests.\nQuestion: {EPISODE}\nPlease reason "
    "step by step, and write your code in markdown format, e.g., ```python\n# YOUR CODE HERE\n```."
)
NAMED = {
    "plain": EPISODE,
    "qwen3_general": f"Question: {EPISODE}{BOXED}",
    "qwen3_game": f"You are playing language games. Make valid actions to win.\nObservation: {EPISODE}{BOXED}",
    "code": CODE,
}
"""Templates by their names in GEM's scripts, whose `no` is `plain`: YAML reads `no` as false."""
Around = tuple[str, str]
"""Texts before and after the episode."""


def text_around(template: str) -> Around | None:
    """Return the texts around the episode in a template or a named one; None unless it has exactly one place."""
    before, place, after = NAMED.get(template, template).partition(EPISODE)
    return (before, after) if place and EPISODE not in after else None


def in_one_message(pieces: Iterable[Piece], around: Around) -> Iterator[Piece]:
    """Yield the pieces as one user message within a template.

    Texts in a row are one piece, so a tokenizer reads the message as it stands. The episode's last line end is the
    template's, where the template has one.
    """
    text, after = around
    for piece in pieces:
        if piece.turn is None:
            text += piece.text
        else:
            yield Piece("user", text)
            yield piece._replace(role="user")
            text = ""
    yield Piece("user", (text.removesuffix("\n") if after.startswith("\n") else text) + after)
