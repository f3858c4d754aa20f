"""Random Sokoban rooms, solvable by construction in few moves.

A room is generated backwards: from boxes on their targets, the player walks and pulls. The same moves in reverse, as
pushes, solve the final position. So no search is needed to know that a room can be solved within its turns.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from heapq import heappop, heappush
from random import Random

WALL, FLOOR, TARGET, BOX, BOX_ON_TARGET, PLAYER, PLAYER_ON_TARGET = "#_OX*PQ"
NUM_PULLS = 8
"""Rooms generated on one floor; the best is taken."""
TRIES = 200
"""Floors tried until a room is found."""
WAYS = ((0, 1), (1, 0), (0, -1), (-1, 0))
LONGEST = 100
"""Largest number of moves that solve a room."""
NEVER = 10**6

Cells = frozenset[int]
Position = tuple[Cells, int]
"""Boxes and the player."""
Pushed = tuple[int, Position, int, str]
"""Predecessor of a position: moves so far, the position before, the player's cell before the push, and the direction.
"""


@dataclass(frozen=True)
class Room:
    """A room with walls all around. Cells are numbered from the left and from the top."""

    width: int
    floor: Cells
    targets: Cells
    boxes: Cells
    player: int
    solution_length: int = 0
    """Number of moves of the solution by construction."""

    @property
    def steps(self) -> dict[str, int]:
        return {"up": -self.width, "down": self.width, "left": -1, "right": 1}


def room_of(rows: Iterable[str]) -> Room:
    lines = list(rows)
    cells = "".join(lines)

    def where(symbols: str) -> Cells:
        return frozenset(cell for cell, symbol in enumerate(cells) if symbol in symbols)

    return Room(
        width=len(lines[0]),
        floor=frozenset(range(len(cells))) - where(WALL),
        targets=where(TARGET + BOX_ON_TARGET + PLAYER_ON_TARGET),
        boxes=where(BOX + BOX_ON_TARGET),
        player=min(where(PLAYER + PLAYER_ON_TARGET)),
    )


def rows_of(room: Room, num_rows: int) -> list[str]:
    cells = [FLOOR if cell in room.floor else WALL for cell in range(num_rows * room.width)]
    for cell in room.targets:
        cells[cell] = TARGET
    for cell in room.boxes:
        cells[cell] = BOX_ON_TARGET if cell in room.targets else BOX
    cells[room.player] = PLAYER_ON_TARGET if room.player in room.targets else PLAYER
    return ["".join(cells[start : start + room.width]) for start in range(0, len(cells), room.width)]


def draw_room(rng: Random, num_rows: int, num_columns: int, num_boxes: int, max_moves: int) -> Room:
    """Draw a room that `max_moves` solve, with no box on a target. Of a few candidates it is the one whose boxes are
    farthest from targets."""
    for _ in range(TRIES):
        floor = carve(rng, num_rows, num_columns, 0.5 + 0.3 * rng.random())
        if len(floor) > num_boxes:
            rooms = [pull_away(rng, num_columns, floor, num_boxes, max_moves) for _ in range(NUM_PULLS)]
            if any(rooms):
                return max(filter(None, rooms), key=least_pushes)
    raise ValueError(
        f"env: found no room of {num_rows} x {num_columns} cells in which {max_moves} moves bring {num_boxes} "
        "boxes to targets: ask for fewer boxes, or for more cells or turns"
    )


def carve(rng: Random, num_rows: int, num_columns: int, share: float) -> Cells:
    """Carve a floor by a random walk, two cells wide, until it covers `share` of the cells within the outer walls."""
    num_cells = share * (num_rows - 2) * (num_columns - 2)
    row, column = rng.randrange(1, num_rows - 1), rng.randrange(1, num_columns - 1)
    down, right = 0, 1
    floor: set[int] = set()
    while len(floor) < num_cells:
        floor.add(row * num_columns + column)
        floor.add(min(row + abs(right), num_rows - 2) * num_columns + min(column + abs(down), num_columns - 2))
        if rng.random() < 0.4:
            down, right = WAYS[int(4 * rng.random())]
        row = min(max(row + down, 1), num_rows - 2)
        column = min(max(column + right, 1), num_columns - 2)
    return frozenset(floor)


def pull_away(rng: Random, width: int, floor: Cells, num_boxes: int, max_moves: int) -> Room | None:
    """Pull boxes away from their targets while moves are left; None if some box never leaves the targets."""
    player, *ends = rng.sample(sorted(floor), num_boxes + 1)
    targets, boxes = frozenset(ends), set(ends)
    room, num_moves = None, 0
    while True:
        far = reach(floor - boxes, player, width)
        if not num_moves:
            far = dict.fromkeys(far, 0)
        pulls = [
            (box, step)
            for box in sorted(boxes)
            for step in (-width, width, -1, 1)
            if box + step in far and box + 2 * step in floor and box + 2 * step not in boxes
        ]
        if not pulls:
            return room
        box, step = rng.choice([pull for pull in pulls if pull[0] in targets] or pulls)
        num_moves += far[box + step] + 1
        if num_moves > min(max_moves, LONGEST):
            return room
        boxes.remove(box)
        boxes.add(box + step)
        player = box + 2 * step
        if not boxes & targets:
            room = Room(width, floor, targets, frozenset(boxes), player, num_moves)


def reach(free: Cells, start: int, width: int) -> dict[int, int]:
    """Return the reachable cells with their distances in moves."""
    far = {start: 0}
    queue = [start]
    for cell in queue:
        moves = far[cell] + 1
        for other in (cell - width, cell + width, cell - 1, cell + 1):
            if other in free and other not in far:
                far[other] = moves
                queue.append(other)
    return far


def pushes_left(room: Room) -> dict[int, int]:
    """Return the fewest pushes of a single box from each cell to a target; cells without a solution are left out."""
    far = dict.fromkeys(room.targets, 0)
    queue = list(far)
    for cell in queue:
        for step in room.steps.values():
            if cell - step in room.floor and cell - 2 * step in room.floor and cell - step not in far:
                far[cell - step] = far[cell] + 1
                queue.append(cell - step)
    return far


def least_pushes(room: Room) -> int:
    left = pushes_left(room)
    return sum(left.get(box, NEVER) for box in room.boxes)


def solve(room: Room, weight: float = 1.0) -> list[str]:
    """Return moves that solve the room, at most `weight` times the fewest; an empty list if it is unsolvable.

    A* over the positions after pushes. The heuristic is the weighted sum of `pushes_left`.
    """
    left, width, start = pushes_left(room), room.width, (room.boxes, room.player)
    came: dict[Position, Pushed] = {start: (0, start, room.player, "")}
    queue: list[tuple[float, int, int, Position]] = [(0.0, 0, 0, start)] if least_pushes(room) < NEVER else []
    while queue:
        _, num_moves, _, now = heappop(queue)
        boxes, player = now
        if boxes == room.targets:
            return moves_back(room, came, now)
        if num_moves > came[now][0]:
            continue
        far, rest = reach(room.floor - boxes, player, width), sum(left[box] for box in boxes)
        for box in boxes:
            for name, step in room.steps.items():
                to, stand = box + step, box - step
                if stand in far and to in left and to not in boxes:
                    after, cost = (boxes - {box} | {to}, box), num_moves + far[stand] + 1
                    if after not in came or cost < came[after][0]:
                        came[after] = (cost, now, stand, name)
                        heappush(queue, (cost + weight * (rest - left[box] + left[to]), cost, len(came), after))
    return []


def moves_back(room: Room, came: dict[Position, Pushed], now: Position) -> list[str]:
    moves: list[str] = []
    while came[now][3]:
        _, before, stand, name = came[now]
        moves = [*walk(room, before, stand), name, *moves]
        now = before
    return moves


def walk(room: Room, position: Position, end: int) -> list[str]:
    """Return a shortest path."""
    boxes, cell = position
    far = reach(room.floor - boxes, end, room.width)
    moves: list[str] = []
    while cell != end:
        name, step = next(item for item in room.steps.items() if far.get(cell + item[1], NEVER) < far[cell])
        moves.append(name)
        cell += step
    return moves
