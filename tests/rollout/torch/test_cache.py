"""The cache keeps what its rows hold, whatever its layout, and is laid out anew only where that pays."""

from __future__ import annotations

import random

import pytest
import torch

from rlx.model.shape import Shape
from rlx.rollout.torch.cache import BLOCK, LAYOUT, Cache, round_up


@pytest.fixture
def cache() -> Cache:
    shape = Shape(
        width=8,
        layers=2,
        heads=2,
        key_heads=1,
        head_size=4,
        feed_forward=8,
        vocabulary=16,
        tied=True,
        biased=False,
    )
    return Cache(shape, 64, torch.device("cpu"), torch.float32)


def numbers(seed: int, length: int) -> torch.Tensor:
    return torch.rand((2, 2, 1, length, 4), generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("seed", range(8))
def test_rows_hold_what_was_put_there_through_any_layouts(cache: Cache, seed: int) -> None:
    rng, rows = random.Random(seed), []
    for tick in range(120):
        if not rows or (len(rows) < 58 and rng.random() < 0.3):
            new = [numbers(1000 * tick + i, rng.randint(1, 200)) for i in range(rng.randint(1, 6))]
            cache.reserve(len(rows) + len(new), max(one.shape[3] for one in new))
            for place, one in enumerate(new, len(rows)):
                cache.restore(place, 1, one, one.shape[3])
            rows += new
        cache.shed(max(one.shape[3] for one in rows), len(rows))
        assert all(torch.equal(cache.save(place, one.shape[3]), one) for place, one in enumerate(rows))
        assert torch.isfinite(cache._buffer).all()
        while rows and rng.random() < 0.4:
            place = rng.randrange(len(rows))
            cache.move(len(rows) - 1, place, rows[-1].shape[3])
            rows[place] = rows[-1]
            rows.pop()


def test_columns_are_dropped_once_they_cost_as_much_as_a_layout(cache: Cache) -> None:
    cache.reserve(8, 320)
    wide = cache.num_columns
    needed = 160
    ticks = 0
    while cache.num_columns == wide:
        cache.shed(needed, 8)
        ticks += 1
    assert cache.num_columns == needed
    assert ticks == -(-LAYOUT * needed // (wide - needed))


def test_growth_takes_nothing_back_of_what_was_read_in_vain(cache: Cache) -> None:
    cache.reserve(8, 320)
    cache.shed(160, 8)
    before = cache._num_vain
    cache.shed(2 * cache.num_columns, 8)
    assert cache._num_vain == before > 0


def test_a_length_that_falls_and_rises_again_costs_few_layouts(cache: Cache) -> None:
    cache.reserve(64, 256)
    layouts = 0
    for tick in range(300):
        before = cache.num_columns
        length = 240 if tick % 3 == 0 else 120
        cache.reserve(8, length)
        cache.shed(length, 8)
        layouts += cache.num_columns != before
    assert layouts <= 300 // LAYOUT


def test_what_no_row_holds_is_not_moved(cache: Cache) -> None:
    cache.reserve(64, 64)
    cache.restore(0, 64, numbers(0, 64).expand(2, 2, 1, 64, 4), 64)
    cache.shed(64, 2)
    cache.reserve(2, 65)
    assert torch.equal(cache.save(1, 64), numbers(0, 64))
    assert cache.num_rows == 64
    assert not torch.equal(cache.save(2, 64), numbers(0, 64))
    assert cache.num_columns == round_up(64 + BLOCK // 2)


def test_without_rows_the_layout_depends_on_the_next_rows_alone(cache: Cache) -> None:
    for length in (300, 17, 290):
        cache.shed(length, 0)
        assert cache.num_columns == round_up(length)
