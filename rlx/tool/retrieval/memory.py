"""BM25 with bm25s (Robertson and Zaragoza 2009, "The probabilistic relevance framework"), in memory and from an index.

    score(query, page) = sum over the query's words w of idf(w) tf (k1 + 1) / (tf + k1 (1 - b + b length / mean))
    idf(w) = ln(1 + (N - n(w) + 1/2) / (n(w) + 1/2))

tf: occurrences of w on the page. n(w): pages that have w, of N pages. length: number of words of the page; mean: its
mean over all pages. bm25s calls this term frequency `atire` and this idf `lucene`.
"""

from __future__ import annotations

import json
import logging
import sys
from array import array
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from rlx.base.limits import MistakeError
from rlx.base.regular import make_inside, read_bounded
from rlx.tool.retrieval.page import Hit, Page, digest_of
from rlx.tool.retrieval.store import PageStore
from rlx.tool.retrieval.words import query_words, words

FOLDER = "bm25s"
"""Folder of an index that bm25s writes and reads."""
VOCABULARY = "vocab.index.json"
LARGEST_VOCABULARY = 2**31
"""Bytes of the words of an index, which are held in memory."""
FORMULA: dict[str, Any] = {"k1": 1.2, "b": 0.75, "method": "atire", "idf_method": "lucene", "dtype": "float64"}
VERSION = 1
"""Number of this engine's scores, a part of its edition."""


class MemoryRetriever:
    """BM25 over pages that fit in memory, about 18 bytes a distinct word of a page beside the text."""

    def __init__(self, pages: Iterable[Page]) -> None:
        self.pages = list(pages)
        self.engine = build_engine(f"{page.title} {page.text}" for page in self.pages)

    def find(self, queries: Sequence[str], top_k: int) -> list[list[Hit]]:
        return [find_best(self.engine, self.pages, query, top_k) for query in queries]

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


class FolderRetriever:
    """Pages of an index folder, with the scores of `MemoryRetriever` mapped from its files."""

    def __init__(self, folder: Path, edition: str) -> None:
        self.folder, self.name = folder, edition
        self.pages = PageStore(folder)
        self.engine = load_engine(folder, len(self.pages))

    def find(self, queries: Sequence[str], top_k: int) -> list[list[Hit]]:
        try:
            return [find_best(self.engine, self.pages, query, top_k) for query in queries]
        except IndexError:
            raise MistakeError(f"{self.folder} is damaged; build the index again") from None

    def open(self, url: str) -> Page | None:
        return self.pages.open(url)

    def edition(self) -> str:
        return self.name


def find_best(engine: Any, pages: Sequence[Page] | PageStore, query: str, top_k: int) -> list[Hit]:
    """Return at most `top_k` pages that have a word of the query, best first. Of equal scores the first page comes
    first, which bm25s's own selection does not promise; a word that is there twice counts twice."""
    ids = engine.get_tokens_ids(query_words(query)) if engine else []
    if not ids or top_k < 1:
        return []
    scores = engine.get_scores_from_ids(ids)
    lowest = np.partition(scores, -top_k)[-top_k] if top_k <= len(scores) else 0
    places = np.flatnonzero(scores >= lowest if lowest > 0 else scores)  # a page that has a word scores above 0
    order = places[np.argsort(-scores[places], kind="stable")][:top_k]
    return [Hit(pages[place], score) for place, score in zip(order.tolist(), scores[order].tolist())]


def build_engine(texts: Iterable[str]) -> Any:
    """Build bm25s's engine, whose words have ids in order of appearance; None where no page has a word. It takes about
    60 bytes of memory for each distinct word of a page."""
    vocabulary: dict[str, int] = {}
    ids = [array("i", (vocabulary.setdefault(word, len(vocabulary)) for word in words(text))) for text in texts]
    if not vocabulary:
        return None
    engine = import_bm25s().BM25(**FORMULA)
    engine.index((ids, vocabulary), create_empty_token=False, show_progress=False)
    return engine


def save_engine(folder: Path, pages: PageStore) -> None:
    """Write the scores of all words of an index's pages."""
    engine = build_engine(f"{page.title} {page.text}" for page in pages)
    if engine is None:
        raise MistakeError(f"{folder}: no page has a word to search by")
    engine.save(str(make_inside(folder, FOLDER)), show_progress=False)


def load_engine(folder: Path, num_pages: int) -> Any:
    """Load the scores of an index, which may come from anyone: no file is unpickled."""
    engine = import_bm25s().BM25(**FORMULA)
    engine.load_scores(folder / FOLDER, num_docs=num_pages, mmap=True)
    data, pages, begins = (engine.scores[name] for name in ("data", "indices", "indptr"))
    vocabulary = json.loads(read_bounded(folder / FOLDER / VOCABULARY, LARGEST_VOCABULARY))
    are_lists = all(numbers.ndim == 1 and numbers.dtype.kind in "iuf" for numbers in (data, pages, begins))
    if not are_lists or "f" in (pages.dtype.kind, begins.dtype.kind) or not len(begins):
        raise ValueError("its scores are no lists of numbers")
    is_whole = (int(begins[0]), int(begins[-1])) == (0, len(data)) and len(pages) == len(data)
    has_ids = list(vocabulary.values()) == list(range(len(begins) - 1))
    if not (is_whole and has_ids) or (begins[1:] < begins[:-1]).any():
        raise MistakeError(f"{folder}: the scores do not belong to the words; build the index again")
    engine.vocab_dict, engine.nonoccurrence_array = vocabulary, None  # `atire` scores no absent words
    return engine


def import_bm25s() -> Any:
    """Import bm25s, which takes half a second, while JAX is hidden from it: bm25s would start JAX for a selection that
    is not used here, and JAX takes most of a GPU."""
    with hide("jax", "jax.lax"):
        import bm25s
    logging.getLogger("bm25s").setLevel(logging.WARNING)  # it logs every step to the terminal
    return bm25s


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
