"""BM25 of rlx.retrieval.memory on disk: the same scores to the last bit, mapped into memory when opened."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from rlx.limits import MistakeError
from rlx.regular import read_bounded, write_aside
from rlx.retrieval.memory import build_matrix, word_ids
from rlx.retrieval.page import Hit, Page
from rlx.retrieval.scoring import Matrix, best
from rlx.retrieval.store import PageStore, map_file

LARGEST_VOCABULARY = 2**31
"""Bytes of the words of an index, which are held in memory."""
VOCABULARY, DATA, COLUMNS, ROWS = "words.txt", "scores.data", "scores.begins", "scores.pages"


class MatrixRetriever:
    """Pages of an index folder, searched in a matrix of scores."""

    def __init__(self, folder: Path, edition: str) -> None:
        self.pages = PageStore(folder)
        known = read_bounded(folder / VOCABULARY, LARGEST_VOCABULARY).decode("utf-8", "surrogatepass")
        self.vocabulary = {word: number for number, word in enumerate(known.split("\n"))} if known else {}
        data, columns, rows = (
            map_file(folder / name, kind) for name, kind in ((DATA, np.float64), (COLUMNS, np.int64), (ROWS, np.int32))
        )
        ends = (columns[0], columns[-1]) if len(columns) else ()
        if len(columns) != len(self.vocabulary) + 1 or ends != (0, len(data)) or (np.diff(columns) < 0).any():
            raise MistakeError(f"{folder}: the scores do not belong to the words; build the index again")
        self.matrix = Matrix(data, rows, columns, len(self.pages))
        self.name = edition

    def find(self, queries: Sequence[str], top_k: int) -> list[list[Hit]]:
        return [self.find_one(query, top_k) for query in queries]

    def find_one(self, query: str, top_k: int) -> list[Hit]:
        ids = word_ids(self.vocabulary, query)
        if not len(ids) or top_k < 1:
            return []
        try:
            places, scores = best(self.matrix, ids, top_k)
        except IndexError:
            raise MistakeError(f"{self.pages.path.parent} is damaged; build the index again") from None
        return [Hit(self.pages[place], score) for place, score in zip(places.tolist(), scores.tolist())]

    def open(self, url: str) -> Page | None:
        return self.pages.open(url)

    def edition(self) -> str:
        return self.name


def write_matrix(folder: Path, pages: PageStore) -> None:
    """Write the scores of all words, which needs about 60 bytes of memory for each distinct word of a page."""
    vocabulary, matrix = build_matrix(f"{page.title} {page.text}" for page in pages)
    write_aside(folder / VOCABULARY, "\n".join(vocabulary).encode("utf-8", "surrogatepass"))
    found = matrix or Matrix(np.zeros(0), np.zeros(0, np.int32), np.zeros(1, np.int64), 0)
    for name, numbers in ((DATA, found.data), (COLUMNS, found.begins), (ROWS, found.pages)):
        write_aside(folder / name, numbers.tobytes())
