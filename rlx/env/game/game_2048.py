"""2048: slide all tiles; equal tiles merge, and a new tile appears, until a tile is large enough.

2 . . 2 / . 4 . . / . . . . / . . . .  ->  left  ->  4 . . . / 4 . . . / . . 2 . / . . . .  ->  up  ->  ...
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import log2
from random import Random
from typing import ClassVar

from rlx.base.limits import refuse, within
from rlx.env.game.board import in_rows
from rlx.env.game.turns import Game, Turns, go_on, lose, win
from rlx.types import Action, Move, Step, Task, Text, Verb

Row = tuple[int, ...]
Board = tuple[Row, ...]
"""0 is an empty cell."""

DIRECTIONS = ("up", "down", "left", "right")
SIZES = ((16, 20), (32, 30), (64, 50))
"""Tile to reach and turns of random games."""


@dataclass(frozen=True, kw_only=True)
class Game2048(Game):
    """The reward is 1 for the tile `target`, in parts: each time a tile is larger than any before, its share of the
    doublings from the largest at the start to that."""

    actions: ClassVar = tuple(Verb(name=name, description=f"slide all tiles {name}") for name in DIRECTIONS)
    stream: ClassVar = "game_2048"

    target: int = 128
    """The tile to reach, a power of two; a turn brings a tile of 2 or, one in ten, of 4."""
    size: int = 4
    """Rows, and columns."""
    max_turns: int = 100
    """Turns of a game."""
    random: bool = False
    """Each task has a tile to reach and a number of turns of its own."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.target not in (2**power for power in range(3, 18)):
            refuse("target", self.target, "a power of two from 8 to 131072")
        within(2, 8, size=self.size)

    def draw(self, rng: Random) -> Task:
        target, max_turns = rng.choice(SIZES) if self.random else (self.target, self.max_turns)
        return describe(rng.randrange(10**9), target, self.size, max_turns)

    def start(self, task: Task) -> Episode2048:
        return Episode2048(**task.data)

    def demonstrate(self, task: Task, seed: int, tools: Sequence[str]) -> Iterator[Move]:
        """Keep as few tiles as possible, two slides ahead; the expert does not know the tiles to come."""
        episode = self.start(task)
        done = False
        while not done:
            action = Action(kind="act", name=promising(episode.board), text="")
            yield Move(thought="Most cells are empty then.", action=action)
            done = episode.step(action).done


def describe(seed: int, target: int, size: int, max_turns: int) -> Task:
    """`seed` draws the tiles that come."""
    return Task(
        id=f"{target}/{seed}",
        prompt=(
            Text(
                f"Reach a tile of {target}. All tiles slide up, down, left or right; two equal ones that meet become "
                f"one, of their sum, and a new tile of 2 or 4 comes. You have {max_turns} turns."
            ),
        ),
        data={"seed": seed, "target": target, "size": size, "max_turns": max_turns},
    )


@lru_cache(maxsize=2**16)
def merge(row: Row) -> Row:
    """A row that slid left."""
    tiles: list[int] = []
    may_merge = False
    for tile in filter(None, row):
        if may_merge and tiles[-1] == tile:
            tiles[-1], may_merge = 2 * tile, False
        else:
            tiles.append(tile)
            may_merge = True
    return (*tiles, *[0] * (len(row) - len(tiles)))


def slide(board: Board, name: str) -> Board:
    if name == "left":
        return tuple(map(merge, board))
    if name == "right":
        return tuple(merge(row[::-1])[::-1] for row in board)
    return tuple(zip(*slide(tuple(zip(*board)), "left" if name == "up" else "right")))


def slides(board: Board) -> dict[str, Board]:
    """Return the board after each direction that moves something."""
    after = {name: slide(board, name) for name in DIRECTIONS}
    return {name: moved for name, moved in after.items() if moved != board}


def promising(board: Board) -> str:
    """The direction after which another leads to the most empty cells."""

    def most_empty(moved: Board) -> int:
        return max(map(num_empty, slides(moved).values()), default=0)

    ways = slides(board)
    return max(ways, key=lambda name: most_empty(ways[name]))


def num_empty(board: Board) -> int:
    return sum(row.count(0) for row in board)


class Episode2048(Turns):
    def __init__(self, seed: int, target: int, size: int, max_turns: int) -> None:
        super().__init__(max_turns)
        self.rng, self.target = Random(seed), target
        self.board: Board = ((0,) * size,) * size
        self.add_tile()
        self.add_tile()
        self.most = self.least = max(map(max, self.board))

    def add_tile(self) -> bool:
        """2, or one in ten times 4, in any empty cell, as GEM draws them from a seed. Whether that was the last."""
        empty = [(down, right) for down, row in enumerate(self.board) for right, tile in enumerate(row) if not tile]
        down, right = self.rng.choice(empty)
        row = self.board[down]
        row = (*row[:right], 2 if self.rng.random() < 0.9 else 4, *row[right + 1 :])
        self.board = (*self.board[:down], row, *self.board[down + 1 :])
        return len(empty) == 1

    def opening(self) -> Step:
        return go_on(self.drawn())

    def picture(self) -> str:
        return self.drawn()

    def play(self, action: Action) -> Step | None:
        if action.kind != "act" or action.name not in DIRECTIONS:
            return None
        moved = slide(self.board, action.name)
        if moved == self.board:
            return go_on(f"nothing moves {action.name}\n{self.drawn()}")
        self.board = moved
        gain = self.gain()
        is_full = self.add_tile()
        if self.most >= self.target:
            return win(f"reached {self.target}", gain)
        if is_full and not slides(self.board):
            return lose(f"nothing can move\n{self.drawn()}", gain)
        return go_on(f"moved {action.name}\n{self.drawn()}", gain)

    def gain(self) -> float:
        before, self.most = self.most, max(self.most, *map(max, self.board))
        return log2(min(self.most, self.target) / before) / log2(self.target / self.least)

    def drawn(self) -> str:
        size = len(self.board)
        return in_rows([tile or "." for row in self.board for tile in row], size, size, len(str(self.most)))
