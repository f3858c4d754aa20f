"""Text drawn ahead by processes of its own, so that a GPU does not wait for it; each step's is its seed alone."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from itertools import islice
from multiprocessing import get_context

from scripts.nano.corpus import Corpus, Example

AHEAD = 8
"""Texts that each process may be ahead."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """Arguments of one draw."""

    seed: str
    num_tokens: int
    trace_share: float


def draw_text(corpus: Corpus, order: Order) -> list[Example]:
    return corpus.draw(order.seed, order.num_tokens, order.trace_share)


def draw_all(corpus: Corpus, orders: Iterable[Order], drawers: int) -> Iterator[list[Example]]:
    """Draw the texts in order, by `drawers` other processes or by this one."""
    if not drawers:
        yield from (draw_text(corpus, order) for order in orders)
        return
    left = iter(orders)
    with ProcessPoolExecutor(drawers, mp_context=get_context("spawn")) as pool:
        coming = deque(pool.submit(draw_text, corpus, order) for order in islice(left, AHEAD * drawers))
        while coming:
            yield coming.popleft().result()
            coming.extend(pool.submit(draw_text, corpus, order) for order in islice(left, 1))
