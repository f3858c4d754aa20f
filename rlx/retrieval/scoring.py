"""Sums of BM25 scores and the best of them, from a matrix that bm25s made.

    score(query, page) = sum over the query's words w of matrix[page, w]

Both functions give the same bits: they add in the order of the query's words. Of equal scores the first page comes
first, which bm25s's own selection does not promise.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from typing import Any

import numpy as np
from numpy.typing import NDArray

BLOCK = 256
"""Pages whose best score stands for them while the best pages are chosen."""
COMPILE_FROM = 20_000
"""Pages from which a compiled search is worth its start of about a second."""


@dataclass(frozen=True, slots=True)
class Matrix:
    """Scores of words on pages by column, as bm25s builds them."""

    data: NDArray[Any]
    pages: NDArray[np.int32]
    """Page of each number in `data`, ascending within a word."""
    begins: NDArray[np.int64]
    """Index in `data` of each word's first number, and the end of the last word."""
    num_pages: int


def best(matrix: Matrix, word_ids: NDArray[np.int32], top_k: int) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return at most `top_k` pages that have a word of the query, best first, and their scores."""
    if matrix.num_pages >= COMPILE_FROM and has_compiler():
        from rlx.retrieval.compiled import compiled_best

        return compiled_best(
            matrix.data, matrix.pages.view(np.uint32), matrix.begins, matrix.num_pages, word_ids, top_k
        )
    return plain_best(matrix, word_ids, top_k)


@cache
def has_compiler() -> bool:
    return find_spec("numba") is not None


def plain_best(matrix: Matrix, word_ids: NDArray[np.int32], top_k: int) -> tuple[NDArray[Any], NDArray[Any]]:
    """Sum with NumPy. Every score is above 0, so 0 means that a page has none of the words."""
    scores = np.zeros(matrix.num_pages, matrix.data.dtype)
    for word in word_ids:
        place = slice(matrix.begins[word], matrix.begins[word + 1])
        np.add.at(scores, matrix.pages[place], matrix.data[place])
    lowest = bound(scores, top_k)
    found = np.flatnonzero(scores >= lowest if lowest > 0 else scores)
    order = found[np.argsort(-scores[found], kind="stable")][:top_k]
    return order, scores[order]


def bound(scores: NDArray[Any], top_k: int) -> float:
    """Return a number that at least `top_k` scores reach, close to the last of the best: a tenth of np.partition's
    time, as the k-th best of blocks' maxima is no more than the k-th best score."""
    num = len(scores) // BLOCK
    if num < top_k:
        return 0.0
    return float(np.partition(scores[: num * BLOCK].reshape(num, BLOCK).max(1), -top_k)[-top_k])
