"""nano's pretraining text: Countdown traces on training tasks, and the lessons, mixed by tokens, seeded and endless.

Documents are encoded segment by segment, as at run time. The probability of a kind follows from its share of the tokens
and the mean length of its documents. So a step's text depends on its seed alone.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import accumulate
from random import Random

from tokenizers import Tokenizer

from scripts.nano.skills import SKILLS
from scripts.nano.skills.lesson import ANSWER, Document, Lesson, is_held_out
from scripts.nano.tokenizer import end_id
from scripts.nano.traces import draw_trace

LONGEST_DOCUMENT = 512
VERDICT = re.compile("==|!=")
VERDICT_WEIGHT = 3.0
"""Reading the observation is what a tiny model learns last, so the token that says what it saw counts three times."""
TRACE = "Countdown traces"


@dataclass(frozen=True, slots=True, kw_only=True)
class Example:
    """An encoded document; one weight per token."""

    ids: tuple[int, ...]
    weights: tuple[float, ...]


def draw_lesson(rng: Random, lesson: Lesson) -> Document:
    """An item that may be trained on."""
    while True:
        document = lesson.draw(rng, rng.choice(lesson.sizes))
        if not is_held_out(document):
            return document


def kinds() -> dict[str, Lesson | None]:
    """Every lesson by its name, and traces."""
    return {TRACE: None} | {lesson.name: lesson for skill in SKILLS.values() for lesson in skill.lessons}


def token_shares(trace_share: float) -> dict[str, float]:
    """Return the share of the tokens of each kind. Lessons share what traces leave, by their weights within a skill."""
    shares = {TRACE: trace_share}
    for skill in SKILLS.values():
        total = sum(lesson.weight for lesson in skill.lessons)
        for lesson in skill.lessons:
            shares[lesson.name] = (1 - trace_share) * skill.share * lesson.weight / total
    return shares


def draw_kind(rng: Random, lesson: Lesson | None) -> Document:
    return draw_trace(rng) if lesson is None else draw_lesson(rng, lesson)


def encode(tokenizer: Tokenizer, document: Document) -> Example:
    """Each segment on its own, as at run time, then the end token."""
    ids: list[int] = []
    weights: list[float] = []
    for segment in document:
        encoding = tokenizer.encode(segment.text)
        ids += encoding.ids
        weights += [segment.weight * (VERDICT_WEIGHT if VERDICT.search(token) else 1.0) for token in encoding.tokens]
    return Example(ids=(*ids, end_id(tokenizer)), weights=(*weights, ANSWER))


def mean_lengths(tokenizer: Tokenizer, num: int = 200) -> dict[str, float]:
    """Tokens of a document, by kind."""
    lengths = {}
    for kind, lesson in kinds().items():
        rng = Random(f"length of {kind}")
        lengths[kind] = sum(len(encode(tokenizer, draw_kind(rng, lesson)).ids) for _ in range(num)) / num
    return lengths


@dataclass(frozen=True, kw_only=True)
class Corpus:
    """Endless text in which each kind of document has its share of the tokens."""

    tokenizer: Tokenizer
    lengths: Mapping[str, float]

    def draw(self, seed: str, num_tokens: int, trace_share: float) -> list[Example]:
        """Draw documents of about `num_tokens` tokens in total."""
        rng, lessons, shares = Random(seed), [*kinds().values()], token_shares(trace_share)
        chances = [*accumulate(share / self.lengths[kind] for kind, share in shares.items())]
        examples: list[Example] = []
        total = 0
        while total < num_tokens:
            (lesson,) = rng.choices(lessons, cum_weights=chances)
            example = encode(self.tokenizer, draw_kind(rng, lesson))
            if len(example.ids) <= LONGEST_DOCUMENT:
                examples.append(example)
                total += len(example.ids)
        return examples


def make_corpus(tokenizer: Tokenizer) -> Corpus:
    return Corpus(tokenizer=tokenizer, lengths=mean_lengths(tokenizer))


def tokenizer_texts(seed: int, num_documents: int = 300) -> Iterator[str]:
    """Yield the tokenizer's training text: the segments of equally many documents of each kind."""
    for kind, lesson in kinds().items():
        rng = Random(f"{seed}:tokenizer:{kind}")
        for _ in range(num_documents):
            yield from (segment.text for segment in draw_kind(rng, lesson))
