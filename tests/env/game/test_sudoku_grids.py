"""Sudoku grids: full ones keep the rules, puzzles have one solution and the grade they say, by a solver of its own."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rlx.env.game.sudoku_grids import (
    HIDDEN,
    NAKED,
    SEARCH,
    Grid,
    deductions,
    full_grid,
    grade_of,
    num_empty,
    puzzle_of,
    solutions,
    units_of,
)

SEEDS = st.integers(0, 10**6)
EASTER = "53..7....6..195....98....6.8...6...34..8.3..17...2...6.6....28....419..5....8..79"
SOLVED = "534678912672195348198342567859761423426853791713924856961537284287419635345286179"
"""The puzzle of Wikipedia's page."""
ESCARGOT = "1....7.9..3..2...8..96..5....53..9...1..8...26....4...3......1..4......7..7...3.."
"""Inkala's, which singles do not solve."""


def grid_of(text: str) -> Grid:
    return [int(digit) for digit in text.replace(".", "0")]


def count(grid: Grid, size: int, most: int = 2) -> int:
    """Solutions by the plainest search, cell after cell, so that it shares nothing with what it checks."""
    if 0 not in grid:
        return 1
    cell = min((one for one, digit in enumerate(grid) if not digit), key=lambda one: len(left(grid, size, one)))
    found = 0
    for digit in left(grid, size, cell):
        found += count([*grid[:cell], digit, *grid[cell + 1 :]], size, most)
        if found >= most:
            break
    return found


def left(grid: Grid, size: int, cell: int) -> set[int]:
    box, (row, column) = int(size**0.5), divmod(cell, size)
    near = {
        digit
        for other, digit in enumerate(grid)
        if other // size == row
        or other % size == column
        or (other // size // box, other % size // box) == (row // box, column // box)
    }
    return set(range(1, size + 1)) - near


@given(SEEDS, st.sampled_from([4, 9]))
def test_full_grids_have_every_digit_in_every_unit(seed: int, size: int) -> None:
    grid = full_grid(Random(seed), size)
    units = units_of(size).units
    assert len(units) == 3 * size
    assert all({grid[cell] for cell in unit} == set(range(1, size + 1)) for unit in units)


@settings(max_examples=25)
@given(SEEDS, st.sampled_from([(4, 4), (4, 7), (9, 26), (9, 34), (9, 50)]), st.sampled_from([NAKED, HIDDEN, SEARCH]))
def test_puzzles_have_one_solution_and_no_harder_steps_than_allowed(
    seed: int, sizes: tuple[int, int], grade: int
) -> None:
    rng, (size, num_clues) = Random(seed), sizes
    full = full_grid(rng, size)
    puzzle = puzzle_of(full, rng, num_clues, grade)
    assert all(digit in (0, right) for digit, right in zip(puzzle, full))
    assert len(full) - num_empty(puzzle) >= num_clues
    assert count(puzzle, size) == 1
    assert grade_of(puzzle, full) <= grade
    if (size, num_clues) in ((4, 7), (9, 34), (9, 50)) and grade > NAKED:
        assert len(full) - num_empty(puzzle) == num_clues


@given(SEEDS)
def test_deductions_are_right_each_by_its_own_rule(seed: int) -> None:
    rng = Random(seed)
    full = full_grid(rng, 9)
    grid = puzzle_of(full, rng, 30, SEARCH)
    for cell, grade in deductions(grid, full):
        if grade == NAKED:
            assert left(grid, 9, cell) == {full[cell]}
        if grade == HIDDEN:
            assert any(
                all(full[cell] not in left(grid, 9, other) for other in unit if not grid[other] and other != cell)
                for unit in units_of(9).units
                if cell in unit
            )
        grid[cell] = full[cell]
    assert grid == full


def test_puzzles_that_are_known() -> None:
    assert list(solutions(grid_of(EASTER))) == [grid_of(SOLVED)]
    assert grade_of(grid_of(EASTER), grid_of(SOLVED)) == NAKED
    (solved,) = solutions(grid_of(ESCARGOT), patience=10**6)
    assert grade_of(grid_of(ESCARGOT), solved) == SEARCH
    assert len(list(solutions([0] * 16, patience=10**6))) == 288


def test_a_search_gives_up_when_told() -> None:
    with pytest.raises(TimeoutError):
        list(solutions([0] * 81, patience=100))


def test_random_grids_differ_and_seeds_repeat_them() -> None:
    grids = [tuple(full_grid(Random(seed), 9)) for seed in range(50)]
    assert len(set(grids)) == 50
    assert grids[0] == tuple(full_grid(Random(0), 9))
    assert len({tuple(full_grid(Random(seed), 4)) for seed in range(5000)}) == 288
