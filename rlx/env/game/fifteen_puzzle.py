"""Fifteen puzzle: slide tiles into the gap until they stand in order.

1 2 3 / 4 . 6 / 7 5 8  ->  up  ->  moved 5 up, 1 2 3 / 4 5 6 / 7 . 8  ->  left  ->  solved
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from heapq import heappop, heappush
from random import Random
from typing import ClassVar

from rlx.base.limits import within
from rlx.env.game.board import in_pieces, in_rows
from rlx.env.game.turns import Game, Turns, go_on, win
from rlx.types import Action, Move, Step, Task, Text, Verb

Tiles = tuple[int, ...]
"""Tiles row by row from the top left; 0 is the gap."""

FROM = {"up": (1, 0), "down": (-1, 0), "left": (0, 1), "right": (0, -1)}
"""Place of the tile that slides in each direction, in rows and columns from the gap."""
SIZES = ((2, 10), (3, 20), (4, 50))
"""Rows and slides of random games."""
FARTHEST = 80
"""Slides from the end that a board of four rows can be; of three it is 31, of two 6."""


@dataclass(frozen=True, kw_only=True)
class FifteenPuzzle(Game):
    """The reward is 1 for the order, and after the last slide the share of the cells that are right."""

    actions: ClassVar = tuple(Verb(name=name, description=f"slide a tile {name}") for name in FROM)
    stream: ClassVar = "fifteen_puzzle"

    num_rows: int = 3
    """Rows, and columns."""
    max_turns: int = 20
    """Slides of a game."""
    distance: int | None = None
    """A start is a number of random slides from the end, evenly from 1 to this one; null: to max_turns."""
    random: bool = False
    """Each task has a number of rows and of slides of its own."""

    def __post_init__(self) -> None:
        super().__post_init__()
        within(2, 4, num_rows=self.num_rows)
        within(1, FARTHEST, distance=self.distance)

    def draw(self, rng: Random) -> Task:
        num_rows, max_turns = rng.choice(SIZES) if self.random else (self.num_rows, self.max_turns)
        return describe(shuffle(rng, num_rows, min(self.distance or max_turns, FARTHEST)), num_rows, max_turns)

    def start(self, task: Task) -> FifteenEpisode:
        return FifteenEpisode(**task.data)

    def demonstrate(self, task: Task, seed: int, tools: Sequence[str]) -> Iterator[Move]:
        """The shortest way on small boards; on one of four rows a shorter one is sought where it is over the limit."""
        tiles, num_rows = tuple(task.data["tiles"]), task.data["num_rows"]
        for weight in (1.0,) if num_rows < 4 else (3.0, 2.0, 1.5):
            way = solve(tiles, num_rows, weight)
            if len(way) <= task.data["max_turns"]:
                break
        for left, name in zip(range(len(way), 0, -1), way, strict=True):
            yield Move(thought=f"{left} to go.", action=Action(kind="act", name=name, text=""))


@lru_cache(maxsize=1024)
def describe(tiles: Tiles, num_rows: int, max_turns: int) -> Task:
    return Task(
        id=".".join(map(str, tiles)),
        prompt=(
            Text(
                f"Put the tiles in order: 1 to {num_rows**2 - 1} row by row, the gap last. A tile beside the gap can "
                f"slide into it: up, down, left or right. You have {max_turns} slides."
            ),
        ),
        data={"tiles": list(tiles), "num_rows": num_rows, "max_turns": max_turns},
    )


@cache
def slides_of(num_rows: int) -> list[dict[str, int]]:
    """For each place of the gap, where the tile comes from that slides up, down, left or right."""
    return [
        {
            name: (row + down) * num_rows + column + right
            for name, (down, right) in FROM.items()
            if 0 <= row + down < num_rows and 0 <= column + right < num_rows
        }
        for row in range(num_rows)
        for column in range(num_rows)
    ]


@cache
def draw(num_rows: int) -> tuple[list[str], list[str]]:
    """Each tile as a board shows it, and the pieces of a board: a cell at 2 i, then what is between it and the next."""
    widest = len(str(num_rows**2 - 1))
    cells = [str(tile or ".").rjust(widest) for tile in range(num_rows**2)]
    return cells, in_pieces(in_rows(cells, num_rows, num_rows, widest), widest)


@cache
def in_order(num_rows: int) -> Tiles:
    return (*range(1, num_rows**2), 0)


def shuffle(rng: Random, num_rows: int, distance: int) -> Tiles:
    """Random slides away from the order, none of which takes back the one before, until it is left."""
    tiles, gap, last, onward = list(in_order(num_rows)), num_rows**2 - 1, -1, onward_of(num_rows)
    for _ in range(rng.randint(1, distance)):
        place = rng.choice(onward[gap, last])
        tiles[gap], tiles[place] = tiles[place], 0
        last, gap = gap, place
    return tuple(tiles) if tuple(tiles) != in_order(num_rows) else shuffle(rng, num_rows, distance)


@cache
def onward_of(num_rows: int) -> dict[tuple[int, int], tuple[int, ...]]:
    """For each place of the gap, and the one that it came from or -1, where it can go next."""
    return {
        (gap, last): tuple(place for place in slides.values() if place != last)
        for gap, slides in enumerate(slides_of(num_rows))
        for last in (-1, *slides.values())
    }


@cache
def distances(num_rows: int) -> list[list[int]]:
    """For each tile and place, how many slides it is from where it belongs, if nothing were in its way."""
    places = [divmod(place, num_rows) for place in range(num_rows**2)]
    far = [[abs(row - ends[0]) + abs(column - ends[1]) for row, column in places] for ends in places[:-1]]
    return [[0] * num_rows**2, *far]


def solve(tiles: Tiles, num_rows: int, weight: float) -> list[str]:
    """Slides that bring the order, at most `weight` times as many as the fewest: A* by the sum of `distances`, weighted
    (Pohl 1970)."""
    slides, far, goal = slides_of(num_rows), distances(num_rows), in_order(num_rows)
    left = sum(far[tile][place] for place, tile in enumerate(tiles))
    came: dict[Tiles, tuple[int, Tiles, str]] = {tiles: (0, tiles, "")}
    queue = [(weight * left, 0, left, tiles)]
    while queue:
        _, minus_cost, left, now = heappop(queue)
        if now == goal:
            break
        gap, cost = now.index(0), 1 - minus_cost
        for name, place in slides[gap].items():
            moved = list(now)
            moved[gap], moved[place] = now[place], 0
            after = tuple(moved)
            if after not in came or cost < came[after][0]:
                came[after] = (cost, now, name)
                rest = left - far[now[place]][place] + far[now[place]][gap]
                heappush(queue, (cost + weight * rest, -cost, rest, after))
    return way_back(came, goal)


def way_back(came: dict[Tiles, tuple[int, Tiles, str]], goal: Tiles) -> list[str]:
    names: list[str] = []
    while came[goal][0]:
        _, goal, name = came[goal]
        names.append(name)
    return names[::-1]


class FifteenEpisode(Turns):
    def __init__(self, tiles: Sequence[int], num_rows: int, max_turns: int) -> None:
        super().__init__(max_turns)
        self.tiles, self.num_rows = list(tiles), num_rows
        self.goal, self.gap = list(in_order(num_rows)), self.tiles.index(0)
        cells, ends = draw(num_rows)
        self.board = ends.copy()
        self.board[::2] = [cells[tile] for tile in tiles]

    def opening(self) -> Step:
        return go_on("".join(self.board))

    def picture(self) -> str:
        return "".join(self.board)

    def play(self, action: Action) -> Step | None:
        if action.kind != "act" or action.name not in FROM:
            return None
        message = self.slide(action.name)
        return win("solved") if self.tiles == self.goal else go_on("".join((message, "\n", *self.board)))

    def slide(self, name: str) -> str:
        """Slide a tile, and describe the result."""
        place = slides_of(self.num_rows)[self.gap].get(name)
        if place is None:
            return f"nothing can slide {name}"
        self.tiles[self.gap], self.tiles[place] = self.tiles[place], 0
        board = self.board
        board[2 * self.gap], board[2 * place] = board[2 * place], board[2 * self.gap]
        self.gap, place = place, self.gap
        return f"moved {self.tiles[place]} {name}"

    def at_limit(self, step: Step) -> float:
        return sum(map(int.__eq__, self.tiles, self.goal)) / len(self.goal)
