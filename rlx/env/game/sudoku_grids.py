"""Sudoku grids: full random grids, puzzles with one solution, and the grade of a puzzle.

A cell is *single* if only one digit fits it (naked), or if a row, column or box has no other cell for a digit (hidden).
A removed clue that is single follows from the remaining clues. Otherwise a search must show that no other digit fits.
If each removed clue followed at its removal, the puzzle has one solution.
"""

from __future__ import annotations

from collections.abc import Iterator
from copy import copy
from dataclasses import dataclass
from functools import cache
from math import isqrt
from random import Random

NAKED, HIDDEN, SEARCH = 1, 2, 3
"""Grades: the hardest step of a solution that always takes the easiest cell next."""
PATIENCE = 1000
"""Cells that a search may fill before it gives up."""
TRIES = 8
"""Random orders of removal to try, until few enough clues are left."""

FREE = {4: 4, 6: 3, 9: 4}
"""Step between the boxes of a size that share no row or column; at size 4 the step selects one box."""

Grid = list[int]
"""Cells from the left and from the top; 0 is empty."""


@dataclass(frozen=True)
class Units:
    """Cells of the rows, columns and boxes of a grid."""

    units: tuple[tuple[int, ...], ...]
    """Cells of each unit: first the rows, then the columns, then the boxes."""
    cell_units: tuple[tuple[int, int, int], ...]
    """Row, column and box of each cell."""


@cache
def units_of(size: int) -> Units:
    high = isqrt(size)
    wide = size // high
    places = [divmod(cell, size) for cell in range(size**2)]
    cell_units = tuple((row, size + col, 2 * size + row // high * high + col // wide) for row, col in places)
    units = tuple(tuple(cell for cell in range(size**2) if unit in cell_units[cell]) for unit in range(3 * size))
    return Units(units, cell_units)


class Board:
    """A grid with the digits of each unit, as bits."""

    def __init__(self, grid: Grid) -> None:
        self.grid, self.size = list(grid), isqrt(len(grid))
        self.all = 2 ** (self.size + 1) - 2
        grid_units = units_of(self.size)
        self.units, self.cell_units = grid_units.units, grid_units.cell_units
        self.has = [0] * len(self.units)
        for cell, digit in enumerate(grid):
            if digit:
                self.toggle(cell, 1 << digit)

    def copy(self) -> Board:
        board = copy(self)
        board.grid, board.has = list(self.grid), list(self.has)
        return board

    def toggle(self, cell: int, bit: int) -> None:
        has = self.has
        for unit in self.cell_units[cell]:
            has[unit] ^= bit

    def put(self, cell: int, digit: int) -> None:
        self.grid[cell] = digit
        self.toggle(cell, 1 << digit)

    def take(self, cell: int) -> int:
        digit, self.grid[cell] = self.grid[cell], 0
        self.toggle(cell, 1 << digit)
        return digit

    def fits(self, cell: int) -> int:
        """Return the digits that the cell's units lack, as bits."""
        row, column, box = self.cell_units[cell]
        return self.all & ~(self.has[row] | self.has[column] | self.has[box])

    def empty(self) -> list[int]:
        return [cell for cell, digit in enumerate(self.grid) if not digit]

    def is_hidden(self, cell: int, digit: int) -> bool:
        """Return True if one of the cell's units has no other cell for the digit."""
        grid, cell_units, has, bit = self.grid, self.cell_units, self.has, 1 << digit
        for unit in cell_units[cell]:
            for other in self.units[unit]:
                if not grid[other] and other != cell:
                    row, column, box = cell_units[other]
                    if not (has[row] | has[column] | has[box]) & bit:
                        break
            else:
                return True
        return False


@cache
def digits_of(bits: int) -> tuple[int, ...]:
    return tuple(digit for digit in range(1, 10) if bits >> digit & 1)


def solutions(grid: Grid, rng: Random | None = None, patience: int = PATIENCE) -> Iterator[Grid]:
    """Yield the full grids that extend a grid, in random order with an `rng`. Raise TimeoutError after `patience`
    filled cells."""
    return search(Board(grid), rng, patience)


def search(board: Board, rng: Random | None, patience: int) -> Iterator[Grid]:
    """Yield solutions, filling the cell with the fewest digits first. The board is changed."""
    has, cell_units, all_digits = board.has, board.cell_units, board.all
    num_left = patience

    def fill(empty: list[int]) -> Iterator[Grid]:
        nonlocal num_left
        if not empty:
            yield list(board.grid)
            return
        fewest, cell, bits = 10, 0, 0
        for other in empty:
            row, column, box = cell_units[other]
            fits = all_digits & ~(has[row] | has[column] | has[box])
            num = fits.bit_count()
            if num < fewest:
                fewest, cell, bits = num, other, fits
                if num <= 1:
                    break
        if not bits:
            return
        rest = [other for other in empty if other != cell]
        tries = list(digits_of(bits))
        if rng and len(tries) > 1:
            rng.shuffle(tries)
        row, column, box = cell_units[cell]
        for digit in tries:
            num_left -= 1
            if num_left < 0:
                raise TimeoutError
            bit = 1 << digit
            board.grid[cell] = digit
            has[row] |= bit
            has[column] |= bit
            has[box] |= bit
            yield from fill(rest)
            has[row] ^= bit
            has[column] ^= bit
            has[box] ^= bit

    return fill(board.empty())


def full_grid(rng: Random, size: int) -> Grid:
    """Draw a full grid. Boxes that share no row or column are drawn first."""
    grid = [0] * size**2
    for box in units_of(size).units[2 * size :: FREE[size]]:
        for cell, digit in zip(box, rng.sample(range(1, size + 1), size), strict=True):
            grid[cell] = digit
    try:
        return next(solutions(grid, rng))
    except TimeoutError:
        return full_grid(rng, size)


def puzzle_of(full: Grid, rng: Random, num_clues: int, grade: int) -> Grid:
    """Return a puzzle with one solution and `num_clues` clues, or as few more as the tries reach."""
    fewest = full
    for _ in range(TRIES):
        fewest = max(take_away(full, rng, num_clues, grade), fewest, key=num_empty)
        if num_empty(fewest) >= len(full) - num_clues:
            break
    return fewest


def take_away(full: Grid, rng: Random, num_clues: int, grade: int) -> Grid:
    """Remove clues that follow from the others. A clue that does not follow now will not follow later, with fewer
    clues."""
    board = Board(full)
    num_left = len(full)
    for cell in rng.sample(range(len(full)), len(full)):
        if num_left == num_clues:
            break
        digit = board.take(cell)
        if follows(board, cell, digit, grade):
            num_left -= 1
        else:
            board.put(cell, digit)
    return board.grid


def follows(board: Board, cell: int, digit: int, grade: int) -> bool:
    """Return True if deductions up to the grade show that only this digit fits the cell."""
    others = board.fits(cell) & ~(1 << digit)
    if not others or (grade > NAKED and board.is_hidden(cell, digit)):
        return True
    return grade == SEARCH and not any(has_solution(board, cell, other) for other in digits_of(others))


def has_solution(board: Board, cell: int, digit: int) -> bool:
    """Return True if the grid with this digit may have a solution; also True if the search gives up."""
    board = board.copy()
    board.put(cell, digit)
    try:
        return any(True for _ in search(board, None, PATIENCE))
    except TimeoutError:
        return True


def num_empty(grid: Grid) -> int:
    return grid.count(0)


def deductions(puzzle: Grid, solution: Grid) -> Iterator[tuple[int, int]]:
    """Yield the empty cells in solving order, the easiest first, each with its grade."""
    board = Board(puzzle)
    empty = board.empty()
    while empty:
        cell, grade = easiest(board, empty, solution)
        board.put(cell, solution[cell])
        empty.remove(cell)
        yield cell, grade


def easiest(board: Board, empty: list[int], solution: Grid) -> tuple[int, int]:
    for cell in empty:
        if board.fits(cell).bit_count() == 1:
            return cell, NAKED
    for cell in empty:
        if board.is_hidden(cell, solution[cell]):
            return cell, HIDDEN
    return min(empty, key=lambda cell: board.fits(cell).bit_count()), SEARCH


def grade_of(puzzle: Grid, solution: Grid) -> int:
    return max((grade for _, grade in deductions(puzzle, solution)), default=NAKED)
