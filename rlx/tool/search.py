"""A search over pages: BM25 (Robertson and Zaragoza 2009, "The probabilistic relevance framework"), in memory.

    score(query, page) = sum over the query's words w of idf(w) tf (k1 + 1) / (tf + k1 (1 - b + b length / mean))
    idf(w) = ln(1 + (N - n(w) + 1/2) / (n(w) + 1/2))

tf is how often w is on the page, n(w) on how many of the N pages it is, length how many words the page has,
and mean how many a page has.
"""

from __future__ import annotations

import json
import re
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from heapq import nlargest
from math import log
from pathlib import Path
from typing import ClassVar, Protocol

from rlx.limits import MistakeError, within
from rlx.tool.python import Result, printable
from rlx.types import Verb

WORD = re.compile(r"\w+")
K1, B = 1.2, 0.75
LONGEST = 1000
"""Characters of a query."""


class Pages(Protocol):
    """Texts, each with its title first."""

    def __iter__(self) -> Iterator[str]: ...


@dataclass(frozen=True, kw_only=True)
class Search:
    """The tool: a query's best pages, best first. Safe to call from several threads."""

    verb: ClassVar = Verb(name="search", description="search pages for words", argument="words")

    pages: Pages
    top_k: int = 3
    """Pages that are shown, at most."""
    max_characters: int = 300
    """Of a page that are shown."""

    def __post_init__(self) -> None:
        within(1, 1000, top_k=self.top_k)
        within(1, 10**6, max_characters=self.max_characters)

    @cached_property
    def texts(self) -> list[str]:
        return list(self.pages)

    @cached_property
    def index(self) -> dict[str, list[tuple[int, float]]]:
        """By word: the pages that it is on, each with what it adds to their score."""
        found = [Counter(words(text)) for text in self.texts]
        lengths = [counts.total() for counts in found]
        mean = sum(lengths) / max(1, len(lengths)) or 1.0
        places: dict[str, list[tuple[int, float]]] = defaultdict(list)
        for page, counts in enumerate(found):
            for word, tf in counts.items():
                places[word].append((page, tf * (K1 + 1) / (tf + K1 * (1 - B + B * lengths[page] / mean))))
        num = len(found)
        idf = {word: log(1 + (num - len(on) + 0.5) / (len(on) + 0.5)) for word, on in places.items()}
        return {word: [(page, idf[word] * weight) for page, weight in on] for word, on in places.items()}

    def best(self, query: str) -> list[tuple[int, float]]:
        """Pages with their scores; of equal ones the first comes first."""
        scores: dict[int, float] = defaultdict(float)
        for word in words(query):
            for page, weight in self.index.get(word, ()):
                scores[page] += weight
        return nlargest(self.top_k, scores.items(), key=lambda item: (item[1], -item[0]))

    def run(self, text: str) -> Result:
        found = self.best(text[:LONGEST])
        if not found:
            return Result(output="Error: no page has any of these words", failed=True)
        shown = (printable(self.texts[page])[: self.max_characters] for page, _ in found)
        return Result(output="\n".join(shown))


def words(text: str) -> list[str]:
    return WORD.findall(text.lower())


def read_pages(path: str) -> list[str]:
    """Pages of a jsonl file: each line a text, or an object with `contents`, or with a `title` and a `text`."""
    try:
        lines = Path(path).expanduser().read_text(encoding="utf-8").splitlines()
        return [as_page(json.loads(line)) for line in lines if line.strip()]
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        why = getattr(error, "strerror", None) or "a line is no text, and no object with contents, or title and text"
        raise MistakeError(f"pages.path={path}: {why}") from error


def as_page(told: object) -> str:
    if isinstance(told, str):
        return told
    if not isinstance(told, dict):
        raise TypeError
    return str(told["contents"]) if "contents" in told else f"{told['title']}: {told['text']}"
