"""Text of what the agent sees, by the rules of BabyAI-Text (Carta et al. 2023, arXiv:2302.02662).

    You carry a red key
    You see a wall 2 steps forward
    You see a blue ball 1 step left and 3 steps forward
    You see a open grey door 2 steps right            (always `a`: the released code never says `an`)

A view is minigrid's `obs["image"].tolist()`: view[column][row] is (object, colour, state). Column 0 is the leftmost,
row 0 the farthest. The agent stands in column 3 of row 6, and that cell of the view holds the thing it carries.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

View = Sequence[Sequence[Sequence[int]]]

COLUMN, ROW = 3, 6
"""Place of the agent."""
EMPTY, WALL, DOOR = (0, 1), 2, 4
"""Codes of minigrid: cells that nobody sees or that hold nothing, walls, doors."""
OBJECTS = {DOOR: "door", 5: "key", 6: "ball", 7: "box"}
COLOURS = ("red", "green", "blue", "purple", "yellow", "grey")
CARRIED = ("key", "ball", "box")
"""Kinds of things that can be carried."""
STATES = ("open", "closed", "locked")

LINES_OF_SIGHT = (
    ("forward", tuple((COLUMN, ROW - steps) for steps in range(1, 7))),
    ("left", tuple((COLUMN - steps, ROW) for steps in range(1, 4))),
    ("right", tuple((COLUMN + steps, ROW) for steps in range(1, 4))),
)


def describe(view: View) -> list[str]:
    """Return one description for each thing: what is carried, walls, then objects by columns from the left, and in a
    column from the farthest. The cell that the agent stands in is not described."""
    return [*describe_carried(view), *walls(view), *objects(view)]


def describe_carried(view: View) -> Iterator[str]:
    kind, colour, _ = view[COLUMN][ROW]
    if kind in OBJECTS:
        yield f"You carry a {COLOURS[colour]} {OBJECTS[kind]}"


def walls(view: View) -> Iterator[str]:
    """Describe the walls ahead, on the left and on the right that no object hides. Unseen cells hide nothing."""
    for side, cells in LINES_OF_SIGHT:
        for steps, (column, row) in enumerate(cells, 1):
            kind = view[column][row][0]
            if kind in EMPTY:
                continue
            if kind == WALL:
                yield f"You see a wall {count(steps)} {side}"
            break


def objects(view: View) -> Iterator[str]:
    for column, cells in enumerate(view):
        for row, (kind, colour, state) in enumerate(cells):
            if kind in OBJECTS and (column, row) != (COLUMN, ROW):
                door = f"{STATES[state]} " if kind == DOOR else ""
                yield f"You see a {door}{COLOURS[colour]} {OBJECTS[kind]} {DIRECTIONS[column][row]}"


def direction(column: int, row: int) -> str:
    """Return the way to a cell: to the side first, then forward."""
    aside, forward = column - COLUMN, ROW - row
    ways = [f"{count(abs(aside))} {'left' if aside < 0 else 'right'}"] if aside else []
    return " and ".join([*ways, *([f"{count(forward)} forward"] if forward else [])])


def count(steps: int) -> str:
    return "1 step" if steps == 1 else f"{steps} steps"


DIRECTIONS = tuple(tuple(direction(column, row) for row in range(ROW + 1)) for column in range(2 * COLUMN + 1))


def find(lines: Iterable[str], colour: str, kind: str) -> str:
    """Return where a thing is, as a thought of at most 10 words; of several the first that is described. An empty kind
    is any thing of the colour."""
    names = [f"{colour} {object_kind}".strip() for object_kind in ((kind,) if kind else CARRIED)]
    for line in lines:
        for name in names:
            before, is_there, place = line.partition(f"{name} ")
            if is_there and before.startswith("You see"):
                return f"The {name}: {place}."
    return f"I do not see the {colour} {kind or 'object'}.".replace("  ", " ")
