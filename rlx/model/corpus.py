"""nano's pretraining text: Countdown traces on training tasks, and the lessons, mixed, seeded and endless.

Documents are encoded segment by segment and never packed together: batches are cut by length, so that each document
starts a context, as at run time, and attends to nothing else.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from random import Random

from tokenizers import Tokenizer

from rlx.model.lessons import ANSWER, NAMES, NUMERALS, SKILLS, WORDS, Document, is_held_out
from rlx.model.tokenizer import END, atomic_tokens, end_id
from rlx.model.traces import draw_trace

LONGEST_DOCUMENT = 512
LIKE_LENGTH = 5 / 6
VERDICT = re.compile("==|!=")
VERDICT_WEIGHT = 3.0
"""Reading the observation is what a tiny model learns last, so the token that says what it saw counts three times."""
ATOMS = "|".join(map(re.escape, [*sorted(atomic_tokens(), key=len, reverse=True), END]))
LONE_LETTER = r"(?<![A-Za-z'])[A-Z](?![A-Za-z'])(?! [a-z])"
CUTS = re.compile(
    rf"{ATOMS}|({'|'.join(NAMES)}|{LONE_LETTER})|(?= (?:{'|'.join(sorted(set(WORDS) | set(NUMERALS)))})\b)"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Example:
    """An encoded document; one weight per token."""

    ids: tuple[int, ...]
    weights: tuple[float, ...]


def draw_lesson(rng: Random, skill: str | None = None) -> Document:
    """A lesson that may be trained on, of `skill` or of any."""
    shares = {name: share for name, (share, _) in SKILLS.items()}
    chosen = skill or rng.choices(list(shares), list(shares.values()))[0]
    while True:
        document = rng.choice(SKILLS[chosen][1])(rng)
        if not is_held_out(document):
            return document


def draw_held_out(rng: Random, skill: str) -> Document:
    """A lesson that is never trained on."""
    while True:
        document = rng.choice(SKILLS[skill][1])(rng)
        if is_held_out(document):
            return document


def draw_document(rng: Random, trace_share: float) -> Document:
    return draw_trace(rng) if rng.random() < trace_share else draw_lesson(rng)


def encode(tokenizer: Tokenizer, document: Document) -> Example:
    """Each segment on its own, as at run time, then the end token."""
    ids: list[int] = []
    weights: list[float] = []
    for segment in document:
        encoding = tokenizer.encode(segment.text)
        ids += encoding.ids
        weights += [segment.weight * (VERDICT_WEIGHT if VERDICT.search(token) else 1.0) for token in encoding.tokens]
    return Example(ids=(*ids, end_id(tokenizer)), weights=(*weights, ANSWER))


def draw_examples(tokenizer: Tokenizer, rng: Random, num_tokens: int, trace_share: float) -> list[Example]:
    """One step's documents, of about `num_tokens` tokens together."""
    examples: list[Example] = []
    while sum(len(e.ids) for e in examples) < num_tokens:
        example = encode(tokenizer, draw_document(rng, trace_share))
        if len(example.ids) <= LONGEST_DOCUMENT:
            examples.append(example)
    return examples


def cut_batches(examples: Sequence[Example], num_tokens: int) -> Iterator[list[Example]]:
    """Batches of like length (at most a sixth is padding), none of more than `num_tokens` tokens with it."""
    batch: list[Example] = []
    for example in sorted(examples, key=lambda e: len(e.ids)):
        length = len(example.ids)
        if batch and ((len(batch) + 1) * length > num_tokens or len(batch[0].ids) < LIKE_LENGTH * length):
            yield batch
            batch = []
        batch.append(example)
    if batch:
        yield batch


def cut_text(text: str) -> Iterator[str]:
    """`text` cut at atomic tags, around names and lone letters, and before the words of the lessons.

    BPE may merge what is left across words, into stock phrases; what varies inside a phrase stays a token of its own.
    """
    yield from filter(None, CUTS.split(text))


def tokenizer_texts(seed: int, trace_share: float, num_documents: int = 12_000) -> Iterator[str]:
    """What the tokenizer learns from: the corpus's own segments, cut."""
    rng = Random(f"{seed}:tokenizer")
    for _ in range(num_documents):
        for segment in draw_document(rng, trace_share):
            yield from cut_text(segment.text)
