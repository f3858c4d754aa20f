"""Minesweeper: reveal every cell that is not a mine; a number counts the mines in the cells around it.

reveal 2 2  ->  9 cells revealed, then the board:

      0 1 2 3 4
    0 . . . . .
    1 . 1 1 2 .
    2 . 1 0 1 .
    3 . 2 1 1 .
    4 . . . . .
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from hashlib import sha256
from random import Random
from typing import ClassVar

from rlx.base.limits import refuse, within
from rlx.env.game.board import BoardTurns
from rlx.env.game.minefield import Numbers, around, risks
from rlx.env.game.turns import Game, lose, parse_numbers, win
from rlx.types import Action, Move, Step, Task, Text, Verb

CLEARED = 9
"""Largest number of cells that stay free of mines: the first revealed cell and its neighbours."""
HIDDEN, FLAG, ZERO = b".F0"


@dataclass(frozen=True, kw_only=True)
class Minesweeper(Game):
    """The reward of a turn is the share of the safe cells that it reveals: 1 in all."""

    actions: ClassVar = (
        Verb(name="reveal", description="reveal a cell", argument="row column"),
        Verb(name="flag", description="put a flag on a cell, or take it off", argument="row column"),
    )
    stream: ClassVar = "minesweeper"

    rows: int = 8
    """Rows of the board, 3 to 10."""
    cols: int = 8
    """Columns of the board, 3 to 10."""
    num_mines: int = 10
    """Mines on the board. The first revealed cell and its neighbours have none."""
    max_turns: int = 20
    """Turns of a game."""
    random: bool = False
    """Each task has a square board of its own, 5 to 8 cells wide, a fifth of which are mines, and as many turns as
    cells."""

    def __post_init__(self) -> None:
        super().__post_init__()
        within(3, 10, rows=self.rows, cols=self.cols)
        if not 1 <= self.num_mines <= self.rows * self.cols - CLEARED:
            refuse("num_mines", self.num_mines, f"1 or more, and {CLEARED} less than rows * cols")

    def draw(self, rng: Random) -> Task:
        if not self.random:
            return draw_task(rng, self.rows, self.cols, self.num_mines, self.max_turns)
        width = rng.randint(5, 8)
        return draw_task(rng, width, width, width**2 // 5, width**2)

    def start(self, task: Task) -> MinesweeperEpisode:
        return MinesweeperEpisode(**task.data)

    def demonstrate(self, task: Task, seed: int, tools: Sequence[str]) -> Iterator[Move]:
        """Reveal a cell that is least likely a mine; often it is sure not to be one. It may lose."""
        rng = Random(f"minesweeper/expert/{seed}/{task.id}")
        episode, is_done = self.start(task), False
        while not is_done:
            risk = risks(episode.revealed(), episode.cols, episode.num_mines)
            least = min(risk.values())
            cell = rng.choice([candidate for candidate in risk if risk[candidate] == least])
            thought = f"A mine is there with a chance of {least:.2f}." if least and episode.mines else "It is no mine."
            move = Move(thought=thought, action=reveal(*divmod(cell, episode.cols)))
            yield move
            is_done = episode.step(move.action).done

    def random_tries(self, task: Task, num: int, seed: int) -> list[Action]:
        """The honest floor: distinct random cells (fewer, if there are no more)."""
        rng = Random(f"minesweeper/random/{seed}/{task.id}")
        cells = range(task.data["rows"] * task.data["cols"])
        return [reveal(*divmod(cell, task.data["cols"])) for cell in rng.sample(cells, min(num, len(cells)))]


def draw_task(rng: Random, rows: int, cols: int, num_mines: int, max_turns: int) -> Task:
    return describe(rng.sample(range(rows * cols), num_mines + CLEARED), rows, cols, num_mines, max_turns)


def describe(cells: list[int], rows: int, cols: int, num_mines: int, max_turns: int) -> Task:
    """`cells` may hold a mine, those first that are sooner mined: 9 more than there are mines."""
    return Task(
        id=f"{rows}x{cols}/{num_mines}/{sha256(bytes(cells)).hexdigest()[:12]}",
        prompt=(
            Text(
                f"Clear a board of {rows} rows and {cols} columns: reveal all but its {num_mines} mines. "
                "A number counts the mines in the 8 cells around it; . is hidden, F is your flag. "
                f"You have {max_turns} turns."
            ),
        ),
        data={"cells": cells, "rows": rows, "cols": cols, "num_mines": num_mines, "max_turns": max_turns},
    )


class MinesweeperEpisode(BoardTurns):
    def __init__(self, cells: Sequence[int], rows: int, cols: int, num_mines: int, max_turns: int) -> None:
        super().__init__(max_turns, rows, cols)
        self.cells, self.rows, self.cols, self.num_mines = cells, rows, cols, num_mines
        self.around = around(rows, cols)
        self.mines: frozenset[int] = frozenset()
        self.counts: list[int] = []
        self.num_safe = self.num_left = rows * cols - num_mines

    def play(self, action: Action) -> Step | None:
        where = parse_numbers(action.text)
        if action.kind != "act" or where is None or len(where) != 2:
            return None
        row, col = where
        if row >= self.rows or col >= self.cols:
            return self.show(f"{row} {col} is not on the board")
        cell = row * self.cols + col
        content = self.board[self.places[cell]]
        if content not in (HIDDEN, FLAG):
            return self.show(f"{row} {col} is revealed already")
        if action.name == "flag":
            return self.flag(cell, content)
        return self.reveal(cell) if content == HIDDEN else self.show(f"{row} {col} has a flag")

    def flag(self, cell: int, content: int) -> Step:
        self.board[self.places[cell]] = FLAG if content == HIDDEN else HIDDEN
        return self.show("flag put" if content == HIDDEN else "flag taken")

    def reveal(self, cell: int) -> Step:
        if not self.mines:
            self.lay(cell)
        if cell in self.mines:
            return lose("that was a mine")
        num = self.open(cell)
        self.num_left -= num
        if self.num_left == 0:
            return win("all clear", num / self.num_safe)
        return self.show(f"{num} cells revealed" if num > 1 else "1 cell revealed", num / self.num_safe)

    def lay(self, first: int) -> None:
        """Mines where they come first, but not in the first cell nor around it."""
        clear = {first, *self.around[first]}
        self.mines = frozenset([cell for cell in self.cells if cell not in clear][: self.num_mines])
        self.counts = [0] * (self.rows * self.cols)
        for mine in self.mines:
            for near in self.around[mine]:
                self.counts[near] += 1

    def open(self, cell: int) -> int:
        """Reveal it, and if no mine is around it all cells there too, unless they have a flag; how many in all."""
        board, places, counts = self.board, self.places, self.counts
        opened = [cell]
        board[places[cell]] = ZERO + counts[cell]
        for opened_cell in opened:
            if not counts[opened_cell]:
                for near in self.around[opened_cell]:
                    if board[places[near]] == HIDDEN:
                        board[places[near]] = ZERO + counts[near]
                        opened.append(near)
        return len(opened)

    def revealed(self) -> Numbers:
        """Return each cell's number, or None where it is not revealed."""
        numbers = [self.board[place] - ZERO for place in self.places]
        return [number if 0 <= number < 9 else None for number in numbers]


def reveal(row: int, col: int) -> Action:
    return Action(kind="act", name="reveal", text=f"{row} {col}")
