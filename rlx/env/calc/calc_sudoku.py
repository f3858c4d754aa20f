"""Sudoku in one answer: all rows, one after the other. Training has larger grids than the test.

Fill the grid ...            1 2 3 4 / 3 4 1 2 / 2 1 4 3 / 4 3 2 1
1 2 . 4
...
"""

from __future__ import annotations

from dataclasses import dataclass
from math import isqrt
from random import Random
from typing import Any

from rlx.base.limits import refuse, within
from rlx.env.calc.calc_question import CalcQuestions
from rlx.env.game.board import in_rows
from rlx.env.game.sudoku_grids import FREE, SEARCH, full_grid, puzzle_of
from rlx.env.questions.question import Question

BETWEEN = " \n\t/|"
WITHOUT = str.maketrans("", "", BETWEEN)


@dataclass(frozen=True, kw_only=True)
class CalcSudoku(CalcQuestions):
    """The reward is 1 for the whole grid: the digits that an answer ends with, and what may stand between them."""

    size: int = 6
    """Rows, columns and digits in training: 4, 6 or 9."""
    clues: int = 20
    """Cells that are filled in training."""
    test_size: int = 4
    """Rows, columns and digits in tests: 4, 6 or 9."""
    test_clues: int = 8
    """Cells that are filled in tests."""

    def __post_init__(self) -> None:
        super().__post_init__()
        for name, size, clues in (("", self.size, self.clues), ("test_", self.test_size, self.test_clues)):
            if size not in FREE:
                refuse(f"{name}size", size, "4, 6 or 9")
            within(size, size**2 - 1, **{f"{name}clues": clues})

    @property
    def stream(self) -> str:
        return "calc/sudoku"

    def draw(self, rng: Random) -> Question:
        return ask(rng, self.size, self.clues)

    def draw_test(self, rng: Random) -> Question:
        return ask(rng, self.test_size, self.test_clues)

    def is_right(self, key: Any, text: str) -> bool:
        grid = text[len(text.rstrip(BETWEEN + "123456789")) :]
        return grid.translate(WITHOUT).endswith(key["answer"])


def ask(rng: Random, size: int, clues: int) -> Question:
    solution = full_grid(rng, size)
    puzzle = puzzle_of(solution, rng, clues, SEARCH)
    high = isqrt(size)
    rule = f"every row, column and box of {high} x {size // high} has each digit from 1 to {size} once"
    board = in_rows((digit or "." for digit in puzzle), size, size)
    answer = in_rows(solution, size, size).replace("\n", " / ")
    key = {"answer": "".join(map(str, solution))}
    return Question(text=f"Fill the grid: {rule}. Say all rows.\n{board}", key=key, answer=answer)
