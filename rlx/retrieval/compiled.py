"""The search of rlx.retrieval.scoring, compiled by numba, without the interpreter's lock."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray


def sum_and_select(
    data: NDArray[Any],
    pages: NDArray[np.uint32],
    begins: NDArray[np.int64],
    num_pages: int,
    word_ids: NDArray[np.int32],
    top_k: int,
) -> tuple[NDArray[Any], NDArray[Any]]:
    """Sum, then insert each better page into a sorted list: a later page never overtakes one of equal score."""
    scores = np.zeros(num_pages, data.dtype)
    for word in word_ids:
        for place in range(begins[word], begins[word + 1]):
            if pages[place] < num_pages:  # compiled code checks no bounds, and an index may be damaged
                scores[pages[place]] += data[place]
    tops = np.zeros(top_k, data.dtype)
    found = np.zeros(top_k, np.int64)
    num = 0
    lowest = tops[0]
    for page in range(num_pages):
        score = scores[page]
        if score > lowest:
            place = min(num, top_k - 1)
            while place > 0 and tops[place - 1] < score:
                tops[place] = tops[place - 1]
                found[place] = found[place - 1]
                place -= 1
            tops[place] = score
            found[place] = page
            num = min(num + 1, top_k)
            if num == top_k:
                lowest = tops[top_k - 1]
    return found[:num], tops[:num]


def compile_best() -> Callable[..., tuple[NDArray[Any], NDArray[Any]]]:
    """Compile, and store the result for later processes where numba finds a place that it may write to."""
    try:
        return njit(nogil=True, cache=True)(sum_and_select)
    except RuntimeError:
        return njit(nogil=True)(sum_and_select)


compiled_best = compile_best()
