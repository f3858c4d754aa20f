"""BM25 in memory, with bm25s (Robertson and Zaragoza 2009, "The probabilistic relevance framework").

    score(query, page) = sum over the query's words w of idf(w) tf (k1 + 1) / (tf + k1 (1 - b + b length / mean))
    idf(w) = ln(1 + (N - n(w) + 1/2) / (n(w) + 1/2))

tf: occurrences of w on the page. n(w): pages that have w, of N pages. length: number of words of the page; mean: its
mean over all pages. bm25s calls this term frequency `atire` and this idf `lucene`.
"""

from __future__ import annotations

import sys
from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property

import numpy as np

from rlx.retrieval.page import Hit, Page, digest_of
from rlx.retrieval.scoring import Matrix, best
from rlx.retrieval.words import query_words, words

K1, B = 1.2, 0.75
VERSION = 1
"""Number of this engine's scores, a part of its edition."""


class MemoryRetriever:
    """BM25 over pages that fit in memory, about 18 bytes a distinct word of a page beside the text."""

    def __init__(self, pages: Iterable[Page]) -> None:
        self.pages = list(pages)
        self.vocabulary, self.matrix = build_matrix(f"{page.title} {page.text}" for page in self.pages)

    def find(self, queries: Sequence[str], top_k: int) -> list[list[Hit]]:
        return [self.find_one(query, top_k) for query in queries]

    def find_one(self, query: str, top_k: int) -> list[Hit]:
        ids = word_ids(self.vocabulary, query)
        if self.matrix is None or not len(ids) or top_k < 1:
            return []
        places, scores = best(self.matrix, ids, top_k)
        return [Hit(self.pages[place], score) for place, score in zip(places.tolist(), scores.tolist())]

    def open(self, url: str) -> Page | None:
        return self.by_url.get(url) if url else None

    @cached_property
    def by_url(self) -> dict[str, Page]:
        return {page.url: page for page in reversed(self.pages)}

    @cached_property
    def digest(self) -> str:
        return digest_of(self.pages)

    def edition(self) -> str:
        return f"bm25s-{VERSION}-{self.digest}"


def word_ids(vocabulary: Mapping[str, int], query: str) -> np.ndarray:
    """Return the ids of a query's words in order, as often as they occur."""
    found = [vocabulary[word] for word in query_words(query) if word in vocabulary]
    return np.array(found, np.int32)


def build_matrix(texts: Iterable[str]) -> tuple[dict[str, int], Matrix | None]:
    """Return the words in order of appearance and their scores; None where no page has a word."""
    vocabulary: dict[str, int] = {}
    ids = [array("i", (vocabulary.setdefault(word, len(vocabulary)) for word in words(text))) for text in texts]
    if not vocabulary:
        return {}, None
    with hide("jax", "jax.lax"):  # bm25s would start it for a selection that is not used here: it takes most of a GPU
        import bm25s  # takes half a second, and most runs do not search

    engine = bm25s.BM25(k1=K1, b=B, method="atire", idf_method="lucene", dtype="float64")
    found = engine.build_index_from_ids(list(range(len(vocabulary))), ids, show_progress=False)
    return vocabulary, Matrix(found["data"], found["indices"], found["indptr"], len(ids))


@contextmanager
def hide(*names: str) -> Iterator[None]:
    """Make these modules impossible to import meanwhile; those that are imported stay so for everyone else."""
    before = {name: sys.modules.get(name) for name in names}
    sys.modules.update(dict.fromkeys(names))  # type: ignore[arg-type]  # None there is an ImportError
    try:
        yield
    finally:
        for name, module in before.items():
            if module is None:
                del sys.modules[name]
            else:
                sys.modules[name] = module
