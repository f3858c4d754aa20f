"""A lesson: how an item is drawn at a size, and how an answer to it is checked.

A document is a tuple of segments, encoded one by one just as prompts, completions and observations are at run time; a
segment's weight says how much its tokens count in the loss (a question's random words cannot be predicted, so they
count little). The first segment names the item: held-out items are told by its hash.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from random import Random

QUESTION = 0.1
"""Weight of given text."""
ANSWER = 1.0
"""Weight of text that the model must write."""
HELD_OUT = 8
"""Items out of 256 that are never trained on."""


@dataclass(frozen=True, slots=True)
class Segment:
    """Text encoded on its own, and the weight of its tokens in the loss."""

    text: str
    weight: float


Document = tuple[Segment, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Lesson:
    """One kind of item. What a size counts (items, digits, hops, sentences …) is the lesson's own."""

    draw: Callable[[Random, int], Document]
    """A document of a size."""
    check: Callable[[str, str], bool]
    """Check of an answer, from the question's text alone and not from its draw."""
    sizes: tuple[int, ...]
    """Trained sizes, drawn evenly: a size that is listed twice is drawn twice as often."""
    harder: int
    """A size beyond them, never trained on."""
    weight: float = 1.0
    """Its share of its skill's tokens, beside the other lessons'."""

    @property
    def name(self) -> str:
        return self.draw.__name__.replace("_", " ")


def ask(question: str, answer: str) -> Document:
    """A question and its answer."""
    return (Segment(question, QUESTION), Segment(answer, ANSWER))


def question_of(document: Document) -> str:
    """All that the model is given."""
    return "".join(segment.text for segment in document if segment.weight < ANSWER)


def answer_of(document: Document) -> str:
    """All that it is to say."""
    return "".join(segment.text for segment in document if segment.weight >= ANSWER)


def is_held_out(document: Document) -> bool:
    """About one item in thirty is never trained on, told by the hash of its first segment."""
    return hashlib.sha256(document[0].text.encode()).digest()[0] < HELD_OUT


def split_words(text: str) -> tuple[str, ...]:
    return tuple(text.split())
