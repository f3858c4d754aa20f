"""Sudoku: fill the grid, a cell at a time; each row, column and box has every digit once.

c: 1 2 | 3 4 / 1: 2 . | 4 3 / 2: 4 3 | . 1 / ...  ->  1 2 1  ->  row 1 column 2 is 1, ...  ->  ...  ->  solved
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from math import isqrt
from random import Random
from typing import ClassVar

from rlx.base.limits import refuse, within
from rlx.env.game.sudoku_grids import HIDDEN, NAKED, SEARCH, deductions, full_grid, grade_of, num_empty, puzzle_of
from rlx.env.game.turns import Game, Turns, go_on, parse_numbers, win
from rlx.types import Action, Move, Step, Task, Text, Verb

SIZES = ((4, 7, 15), (9, 34, 50))
"""Rows, clues and turns of random games."""
LEAST_CLUES = {4: 4, 9: 17}
"""Fewest clues: with fewer of them, more than one grid fits."""
THOUGHTS = {
    NAKED: "Row {row} column {column} can be nothing but {digit}.",
    HIDDEN: "{digit} can be nowhere else than in row {row} column {column}, in a line or box of it.",
    SEARCH: "Only with {digit} in row {row} column {column} can all be filled.",
}


@dataclass(frozen=True, kw_only=True)
class Sudoku(Game):
    """The reward is the share of the empty cells that a right digit fills: 1 in all."""

    actions: ClassVar = (Verb(name="fill", description="fill a cell", argument="row column digit"),)
    stream: ClassVar = "sudoku"

    size: int = 9
    """Rows, columns and digits: 4 or 9."""
    clues: int = 40
    """Cells filled at the start; more cells if no puzzle of the grade with so few clues and one solution was found."""
    grade: int = 3
    """The hardest step that a puzzle may take: 1, a cell for which one digit is left; 2, a digit for which a row,
    column or box has one cell left; 3, a search."""
    max_turns: int = 60
    """Turns of a game."""
    random: bool = False
    """Each task has a size, a number of clues and of turns of its own."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.size not in LEAST_CLUES:
            refuse("size", self.size, "4 or 9")
        within(LEAST_CLUES[self.size], self.size**2 - 1, clues=self.clues)
        within(NAKED, SEARCH, grade=self.grade)

    def draw(self, rng: Random) -> Task:
        size, clues, max_turns = rng.choice(SIZES) if self.random else (self.size, self.clues, self.max_turns)
        solution = full_grid(rng, size)
        return describe(puzzle_of(solution, rng, clues, self.grade), solution, max_turns)

    def start(self, task: Task) -> SudokuEpisode:
        data = task.data
        return SudokuEpisode(data["puzzle"], data["solution"], data["max_turns"])

    def random_argument(self, task: Task, name: str, seed: int) -> str:
        """Return a row, a column and a digit, filled cells included."""
        size, rng = isqrt(len(task.data["puzzle"])), Random(f"sudoku/random/{seed}/{task.id}")
        return " ".join(str(rng.randint(1, size)) for _ in range(3))

    def demonstrate(self, task: Task, seed: int, tools: Sequence[str]) -> Iterator[Move]:
        """The easiest cell first."""
        solution = list(map(int, task.data["solution"]))
        size = isqrt(len(solution))
        for cell, grade in deductions(list(map(int, task.data["puzzle"])), solution):
            row, column, digit = cell // size + 1, cell % size + 1, solution[cell]
            yield Move(
                thought=THOUGHTS[grade].format(row=row, column=column, digit=digit),
                action=Action(kind="act", name="fill", text=f"{row} {column} {digit}"),
            )


def describe(puzzle: Sequence[int], solution: Sequence[int], max_turns: int) -> Task:
    grid, size = "".join(map(str, puzzle)), isqrt(len(puzzle))
    return Task(
        id=grid,
        prompt=(
            Text(
                f"Fill the grid: every row, column and box of {isqrt(size)} x {isqrt(size)} has each digit from 1 to "
                f"{size} once. {num_empty(list(puzzle))} cells are empty. Say row, column and digit, such as 1 2 3. "
                f"You have {max_turns} turns."
            ),
        ),
        data={
            "puzzle": grid,
            "solution": "".join(map(str, solution)),
            "grade": grade_of(list(puzzle), list(solution)),
            "max_turns": max_turns,
        },
    )


class SudokuEpisode(Turns):
    def __init__(self, puzzle: str, solution: str, max_turns: int) -> None:
        super().__init__(max_turns)
        self.size, self.solution = isqrt(len(puzzle)), solution
        self.places = places(self.size)
        self.num_empty = self.num_left = puzzle.count("0")
        self.board = draw(self.size) % tuple(puzzle.replace("0", "."))

    def opening(self) -> Step:
        return go_on(self.board)

    def picture(self) -> str:
        return self.board

    def play(self, action: Action) -> Step | None:
        numbers = parse_numbers(action.text) if action.kind == "act" else None
        if numbers is None or len(numbers) != 3:
            return None
        row, column, digit = numbers
        if not (1 <= row <= self.size and 1 <= column <= self.size and 1 <= digit <= self.size):
            return go_on(f"rows, columns and digits are from 1 to {self.size}\n{self.board}")
        cell = (row - 1) * self.size + column - 1
        place = self.places[cell]
        if self.board[place] != ".":
            return go_on(f"row {row} column {column} is {self.board[place]} already\n{self.board}")
        if self.solution[cell] != str(digit):
            return go_on(f"row {row} column {column} is not {digit}\n{self.board}")
        self.board = f"{self.board[:place]}{digit}{self.board[place + 1 :]}"
        self.num_left -= 1
        gain = 1 / self.num_empty
        return (
            go_on(f"row {row} column {column} is {digit}\n{self.board}", gain) if self.num_left else win("solved", gain)
        )


@cache
def draw(size: int) -> str:
    """Columns are numbered above, rows before; a bar is between boxes."""
    box = isqrt(size)

    def row(name: object, cells: Sequence[object]) -> str:
        boxes = (cells[start : start + box] for start in range(0, size, box))
        return f"{name}: " + " | ".join(" ".join(map(str, cells)) for cells in boxes)

    return "\n".join([row("c", range(1, size + 1)), *(row(number, ["%s"] * size) for number in range(1, size + 1))])


@cache
def places(size: int) -> tuple[int, ...]:
    """Return the place of each cell's character on the board."""
    board = draw(size) % (("_",) * size**2)
    return tuple(place for place, character in enumerate(board) if character == "_")
