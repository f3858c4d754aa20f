"""The algorithms of EARL's Table 2: each sorts every order, and costs what is published or known of it."""

from __future__ import annotations

from itertools import permutations, product
from math import ceil, factorial, log2
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlx.env.sorting.sorters import (
    SORTERS,
    Op,
    average,
    best_comparison,
    cost,
    fewest_swaps,
    insertion,
    orders,
    run,
    settle,
)
from tests.errors import raises_naming
from tests.loops import for_each


@for_each("name, num", product(SORTERS, [2, 3, 4, 5]))
def test_every_order_is_sorted(name: str, num: int) -> None:
    if name == "network of five" and num != 4:
        with raises_naming(ValueError, f"{num} places", 4):
            average(SORTERS[name], num)
        return
    for order in permutations(range(num)):
        numbers = [order.index(place) for place in range(num)]
        for op in run(SORTERS[name], order):
            assert op.first != op.second
            if op.verb == "swap":
                numbers[op.first], numbers[op.second] = numbers[op.second], numbers[op.first]
        assert numbers == sorted(numbers)


@for_each(
    "name, swaps, comparisons",
    [
        ("optimum", 1.917, 4.667),
        ("EARL*", 1.917, 4.833),
        ("network of five", 2.333, 5.000),  # what the paper has as GCC's
        ("insertion", 3.000, 4.917),
    ],
)
def test_table_2_comes_out(name: str, swaps: float, comparisons: float) -> None:
    assert average(SORTERS[name], 4) == pytest.approx((swaps, comparisons), abs=5e-4)


def test_what_the_paper_does_not_say_of_its_table() -> None:
    """To the letter Algorithm 2 takes 5 comparisons; GCC's own insertion 6; Python's asks some twice."""
    assert average(SORTERS["EARL*, as printed"], 4) == pytest.approx((23 / 12, 5))
    assert average(SORTERS["GCC's insertion"], 4) == pytest.approx((3, 6))
    assert average(SORTERS["Python's sorted"], 4) == pytest.approx((23 / 12, 16 / 3))


@for_each("num", [2, 3, 4, 5])
def test_python_itself_makes_as_many_comparisons(num: int) -> None:
    class Counted(int):
        calls = 0

        def __lt__(self, other: int) -> bool:
            Counted.calls += 1
            return int(self) < int(other)

    total = 0
    for numbers in permutations(range(num)):
        Counted.calls = 0
        sorted(map(Counted, numbers))
        total += Counted.calls
    assert average(SORTERS["Python's sorted"], num)[1] == pytest.approx(total / factorial(num))


@for_each("num, total", [(2, 2), (3, 16), (4, 112), (5, 832)])
def test_the_best_trees_have_the_known_path_lengths(num: int, total: int) -> None:
    """Knuth, The Art of Computer Programming 3, 5.3.1: 16/6, 112/24, 832/120."""
    assert best_comparison(num, (1 << factorial(num)) - 1)[0] == total
    assert average(SORTERS["optimum"], num)[1] == pytest.approx(total / factorial(num))
    assert total / factorial(num) >= log2(factorial(num))
    most = max(cost(SORTERS["optimum"], order).comparisons for order in orders(num))
    assert most == ceil(log2(factorial(num)))


@given(st.permutations(range(9)))
def test_the_fewest_swaps_are_the_numbers_less_the_cycles(order: list[int]) -> None:
    left, cycles = set(order), 0
    while left:
        cycles, place = cycles + 1, min(left)
        while place in left:
            left.remove(place)
            place = order[place]
    assert len(list(fewest_swaps(order))) == len(order) - cycles


@given(st.permutations(range(6)), st.permutations(range(6)), st.sets(st.tuples(st.integers(0, 5), st.integers(0, 5))))
def test_an_order_changes_where_it_cannot_be_and_nowhere_else(
    mind: list[int], true: list[int], asked: set[Any]
) -> None:
    pairs = [(a, b) for a, b in asked if true.index(a) < true.index(b)]
    found = settle(mind, pairs)
    assert sorted(found) == list(range(6))
    assert all(found.index(a) < found.index(b) for a, b in pairs)
    assert settle(found, pairs) == found
    if all(mind.index(a) < mind.index(b) for a, b in pairs):
        assert found == tuple(mind)


def test_insertion_goes_step_by_step() -> None:
    assert list(run(insertion, (1, 2, 0))) == [  # B < C < A
        Op("compare", 1, 0),
        Op("swap", 0, 1),
        Op("compare", 2, 1),
        Op("swap", 1, 2),
        Op("compare", 1, 0),
    ]


def test_too_many_orders_are_refused() -> None:
    with raises_naming(ValueError, "7 places", 6):
        orders(7)


def test_the_table_of_the_docs_is_what_comes_out() -> None:
    page = (Path(__file__).resolve().parents[3] / "docs" / "earl.md").read_text(encoding="utf-8")
    rows = [[cell.strip() for cell in row.split("|")[1:4]] for row in page.splitlines() if row.startswith("| ")]
    table = {name: (swaps, comparisons) for name, swaps, comparisons in rows if name in SORTERS}
    assert table == {name: tuple(f"{one:.3f}" for one in average(SORTERS[name], 4)) for name in SORTERS}
