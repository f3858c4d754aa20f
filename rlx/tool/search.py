"""A search over pages: BM25 (Robertson and Zaragoza 2009, "The probabilistic relevance framework"), in memory.

    score(query, page) = sum over the query's words w of idf(w) tf (k1 + 1) / (tf + k1 (1 - b + b length / mean))
    idf(w) = ln(1 + (N - n(w) + 1/2) / (n(w) + 1/2))

tf is how often w is on the page, n(w) on how many of the N pages it is, length how many words the page has,
and mean how many a page has.
"""

from __future__ import annotations

import json
import re
from array import array
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from hashlib import sha256
from heapq import nlargest
from math import log
from typing import ClassVar, Protocol

from rlx.fetch import open_text
from rlx.limits import MistakeError, within
from rlx.tool.python import Result, printable
from rlx.types import Verb

WORD = re.compile(r"\w+")
K1, B = 1.2, 0.75
LONGEST = 1000
"""Characters of a query."""


Places = tuple["array[int]", "array[float]"]
"""Of a word: pages, and a number for each. Arrays, as a list of pairs would take ten times the memory."""


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

    def edition(self) -> str:
        """Of a file's pages."""
        return self.digest if isinstance(self.pages, list) else ""

    @cached_property
    def digest(self) -> str:
        """Taken once, a page at a time: a run asks for it at every checkpoint, and there may be gigabytes."""
        found = sha256()
        for page in self.texts:
            data = page.encode(errors="surrogatepass")
            found.update(b"%d:" % len(data) + data)
        return found.hexdigest()[:16]

    @cached_property
    def texts(self) -> list[str]:
        return list(self.pages)

    @cached_property
    def index(self) -> dict[str, Places]:
        """By word: the pages that it is on, and what it adds to the score of each."""
        found: dict[str, Places] = defaultdict(lambda: (array("L"), array("d")))
        lengths = array("L")
        for page, text in enumerate(self.texts):
            counts = Counter(words(text))
            lengths.append(counts.total())
            for word, times in counts.items():
                pages, weights = found[word]
                pages.append(page)
                weights.append(times)
        mean, num = sum(lengths) / max(1, len(lengths)) or 1.0, len(lengths)
        for pages, weights in found.values():
            idf = log(1 + (num - len(pages) + 0.5) / (len(pages) + 0.5))
            for place, (page, tf) in enumerate(zip(pages, weights)):
                weights[place] = idf * (tf * (K1 + 1) / (tf + K1 * (1 - B + B * lengths[page] / mean)))
        return dict(found)

    def best(self, query: str) -> list[tuple[int, float]]:
        """Pages with their scores; of equal ones the first comes first."""
        scores: dict[int, float] = defaultdict(float)
        for word in words(query):
            for page, weight in zip(*self.index.get(word, ())):
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
        with open_text(path) as file:
            pages = [read_page(path, number, line) for number, line in enumerate(file, 1) if line.strip()]
    except (OSError, UnicodeDecodeError) as error:
        why = getattr(error, "strerror", None) or "it is not text in UTF-8"
        raise MistakeError(f"pages.path={path:.200}: {why}") from error
    if not pages:
        raise MistakeError(f"pages.path={path:.200}: it has no pages")
    return pages


def encodable(text: str) -> str:
    """Replace halves of letters, which JSON can spell and no encoding has."""
    return text.encode(errors="replace").decode()


def read_page(path: str, number: int, line: str) -> str:
    try:
        told = json.loads(line)
        if isinstance(told, str):
            return encodable(told)
        parts = [told["contents"]] if "contents" in told else [told["title"], told["text"]]
        if None not in parts:
            return encodable(": ".join(map(str, parts)))
    except (ValueError, KeyError, TypeError, RecursionError):
        pass
    what = "is no text, and no object with contents, or title and text"
    raise MistakeError(f"pages.path={path:.200}: line {number} {what}")
