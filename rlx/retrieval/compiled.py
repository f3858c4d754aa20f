"""The search of rlx.retrieval.scoring, compiled by numba, without the interpreter's lock."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray


@njit(nogil=True, cache=True)  # type: ignore[untyped-decorator, unused-ignore]
def compiled_best(
    data: NDArray[Any],
    pages: NDArray[np.int32],
    begins: NDArray[np.int64],
    num_pages: int,
    word_ids: NDArray[np.int32],
    top_k: int,
) -> tuple[NDArray[Any], NDArray[Any]]:
    """Sum, then insert each better page into a sorted list: a later page never overtakes one of equal score."""
    scores = np.zeros(num_pages, data.dtype)
    for word in word_ids:
        for place in range(begins[word], begins[word + 1]):
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
