"""Boards in plain text."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache

from rlx.env.game.turns import Turns, go_on
from rlx.types import Step


def in_rows(cells: Iterable[object], num_rows: int, num_columns: int, widest: int = 1) -> str:
    """Cells from the left and from the top, blanks between them, each as wide as the widest."""
    return form(num_rows, num_columns, widest) % tuple(cells)


def in_pieces(board: str, widest: int = 1) -> list[str]:
    """The cell i at 2 i, and what is between it and the next, so that one is changed without a look at the others."""
    starts = range(0, len(board), widest + 1)
    return [piece for start in starts for piece in (board[start : start + widest], board[start + widest :][:1])]


@cache
def form(num_rows: int, num_columns: int, widest: int) -> str:
    return "\n".join([" ".join([f"%{widest}s"] * num_columns)] * num_rows)


@cache
def number_board(num_rows: int, num_columns: int) -> tuple[bytes, tuple[int, ...]]:
    """A board of dots with numbers beside its rows and above its columns, and where in it each cell stands."""
    width = len(str(max(num_rows, num_columns) - 1))
    lines = [["", *range(num_columns)], *([row, *"." * num_columns] for row in range(num_rows))]
    text = "\n".join(" ".join(str(cell).rjust(width) for cell in line) for line in lines)
    step, line = width + 1, (num_columns + 1) * (width + 1)
    places = (
        row * line + col * step + width - 1 for row in range(1, num_rows + 1) for col in range(1, num_columns + 1)
    )
    return text.encode(), tuple(places)


class BoardTurns(Turns):
    """An episode on such a board, which is shown after each turn."""

    def __init__(self, max_turns: int, num_rows: int, num_columns: int) -> None:
        super().__init__(max_turns)
        empty, self.places = number_board(num_rows, num_columns)
        self.board = bytearray(empty)

    def opening(self) -> Step:
        return go_on(self.board.decode())

    def picture(self) -> str:
        return self.board.decode()

    def show(self, text: str, reward: float = 0.0) -> Step:
        return go_on(f"{text}\n{self.board.decode()}", reward)
