"""Sokoban: push all boxes onto targets; a box cannot be pulled, and no two be pushed at once.

# # # # #
# P X O #  ->  right  ->  solved
# # # # #
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from random import Random
from typing import ClassVar

from rlx.base.limits import within
from rlx.env.game.board import in_pieces
from rlx.env.game.sokoban_rooms import (
    BOX,
    BOX_ON_TARGET,
    FLOOR,
    PLAYER,
    PLAYER_ON_TARGET,
    TARGET,
    WALL,
    Room,
    draw_room,
    room_of,
    rows_of,
    solve,
)
from rlx.env.game.turns import Game, Turns, go_on, win
from rlx.types import Action, Move, Step, Task, Text, Verb

DIRECTIONS = ("up", "down", "left", "right")
SIZES = ((6, 6, 2, 20), (8, 8, 5, 50))
"""Rows, columns, boxes and moves of random games."""


@dataclass(frozen=True, kw_only=True)
class Sokoban(Game):
    """The reward is 1 for all boxes on targets, and after the last move the share of them that are."""

    actions: ClassVar = tuple(Verb(name=name, description=f"move {name}") for name in DIRECTIONS)
    stream: ClassVar = "sokoban"

    num_rows: int = 6
    """Rows, with the outer walls."""
    num_columns: int = 6
    """Columns, with the outer walls."""
    num_boxes: int = 2
    """Boxes, and targets; none is on a target at the start."""
    max_turns: int = 30
    """Largest number of moves of a game; every room can be solved within it."""
    random: bool = False
    """Draw the size, the number of boxes and the number of moves for each task."""

    def __post_init__(self) -> None:
        super().__post_init__()
        within(5, 12, num_rows=self.num_rows, num_columns=self.num_columns)
        within(1, (self.num_rows - 2) * (self.num_columns - 2) // 6, num_boxes=self.num_boxes)

    def draw(self, rng: Random) -> Task:
        size = (self.num_rows, self.num_columns, self.num_boxes, self.max_turns)
        num_rows, num_columns, num_boxes, max_turns = rng.choice(SIZES) if self.random else size
        room = draw_room(rng, num_rows, num_columns, num_boxes, max_turns)
        return describe(room, num_rows, max_turns)

    def start(self, task: Task) -> SokobanEpisode:
        return SokobanEpisode(task.data["rows"], task.data["max_turns"])

    def demonstrate(self, task: Task, seed: int, tools: Sequence[str]) -> Iterator[Move]:
        """A short way, found by looking ahead at all boxes; the shortest, where that is over the limit."""
        room = room_of(task.data["rows"])
        way = solve(room, weight=2.0)
        if len(way) > task.data["max_turns"]:
            way = solve(room)
        for left, name in zip(range(len(way), 0, -1), way, strict=True):
            yield Move(thought=f"{left} to go.", action=Action(kind="act", name=name, text=""))


def describe(room: Room, num_rows: int, max_turns: int) -> Task:
    rows = rows_of(room, num_rows)
    return Task(
        id="/".join(rows),
        prompt=(
            Text(
                f"Push all boxes ({BOX}) onto targets ({TARGET}). You are {PLAYER} and move up, down, left or right; a "
                f"box in your way is pushed, if neither a wall ({WALL}) nor a box is behind it. {FLOOR} is floor, "
                f"{BOX_ON_TARGET} a box on a target, {PLAYER_ON_TARGET} you on one. You have {max_turns} moves."
            ),
        ),
        data={"rows": rows, "known": room.solution_length, "max_turns": max_turns},
    )


class SokobanEpisode(Turns):
    def __init__(self, rows: Sequence[str], max_turns: int) -> None:
        super().__init__(max_turns)
        room = room_of(rows)
        self.steps, self.floor, self.targets = room.steps, room.floor, room.targets
        self.boxes, self.player = set(room.boxes), room.player
        self.board = in_pieces("\n".join(map(" ".join, rows)))

    def opening(self) -> Step:
        return go_on(self.drawn())

    def picture(self) -> str:
        return self.drawn()

    def play(self, action: Action) -> Step | None:
        step = self.steps.get(action.name) if action.kind == "act" else None
        if step is None:
            return None
        to = self.player + step
        if to not in self.floor:
            return go_on(f"a wall is in the way\n{self.drawn()}")
        if to in self.boxes:
            return self.push(to, to + step)
        self.walk(to)
        return go_on(f"moved {action.name}\n{self.drawn()}")

    def push(self, box: int, to: int) -> Step:
        if to not in self.floor or to in self.boxes:
            return go_on(f"the box cannot move\n{self.drawn()}")
        self.boxes.remove(box)
        self.boxes.add(to)
        self.board[2 * to] = BOX_ON_TARGET if to in self.targets else BOX
        self.walk(box)
        return win("solved") if self.boxes == self.targets else go_on(f"pushed a box\n{self.drawn()}")

    def walk(self, to: int) -> None:
        self.board[2 * self.player] = TARGET if self.player in self.targets else FLOOR
        self.board[2 * to] = PLAYER_ON_TARGET if to in self.targets else PLAYER
        self.player = to

    def at_limit(self, step: Step) -> float:
        return len(self.boxes & self.targets) / len(self.boxes)

    def drawn(self) -> str:
        return "".join(self.board)
