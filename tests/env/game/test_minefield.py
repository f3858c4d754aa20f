"""Risks of mines: as exact as laying them in every possible way."""

from __future__ import annotations

from itertools import combinations

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from rlx.env.game.minefield import around, risks


def by_hand(numbers: list[int | None], cols: int, num_mines: int) -> dict[int, float]:
    """Every way to lay the mines that gives the numbers seen."""
    near = around(len(numbers) // cols, cols)
    hidden = [cell for cell, number in enumerate(numbers) if number is None]
    seen = [(cell, number) for cell, number in enumerate(numbers) if number is not None]
    ways = [
        set(mines)
        for mines in combinations(hidden, num_mines)
        if all(len(mines & set(near[cell])) == number for mines in [set(mines)] for cell, number in seen)
    ]
    return {cell: sum(cell in mines for mines in ways) / len(ways) for cell in hidden}


@given(st.integers(3, 4), st.integers(3, 5), st.data())
def test_risks_are_those_of_every_way_to_lay_the_mines(rows: int, cols: int, data: st.DataObject) -> None:
    cells = data.draw(st.permutations(range(rows * cols)))
    num_mines = data.draw(st.integers(1, 5))
    mines, rest = set(cells[:num_mines]), cells[num_mines:]
    shown = set(rest[: data.draw(st.integers(0, len(rest)))])
    assume(len(shown) < rows * cols)
    near = around(rows, cols)
    numbers = [len(mines & set(near[cell])) if cell in shown else None for cell in range(rows * cols)]
    assert risks(numbers, cols, num_mines) == pytest.approx(by_hand(numbers, cols, num_mines))


def test_a_corner_by_hand() -> None:
    """A 1 in a corner sees three cells; two more are out of its sight, and there are two mines."""
    numbers = [1, None, None, None, None, None]
    assert risks(numbers, 3, 2) == pytest.approx({1: 1 / 3, 3: 1 / 3, 4: 1 / 3, 2: 1 / 2, 5: 1 / 2})


def test_the_last_mines_are_known_by_their_number() -> None:
    assert risks([None, 1, 1, None], 4, 2) == {0: 1.0, 3: 1.0}
