"""Descriptions of views against strings that were written by hand from the rules of BabyAI-Text."""

from __future__ import annotations

from itertools import product

import pytest

from rlx.env.babyai.text import describe, find
from tests.loops import for_each

CODES = {"?": [0, 0, 0], ".": [1, 0, 0], "#": [2, 5, 0]}
COLOURS = {"r": 0, "g": 1, "b": 2, "p": 3, "y": 4, "e": 5}
KINDS = {"k": [5, 0], "o": [6, 0], "x": [7, 0], "_": [4, 0], "D": [4, 1], "L": [4, 2]}


def view_of(rows: str) -> list[list[list[int]]]:
    """Return the view of a drawing, whose last row has the agent in the middle: `@`, or the thing that it carries.

    `#` wall, `.` empty, `?` unseen. Others are a colour (r g b p y, e is grey) and a thing (k key, o ball, x box,
    _ open door, D closed door, L locked door)."""
    cells = [[code(cell) for cell in line.split()] for line in rows.strip().splitlines()]
    assert [len(row) for row in cells] == [7] * 7
    return [[cells[row][column] for row in range(7)] for column in range(7)]


def code(cell: str) -> list[int]:
    if cell in CODES or cell == "@":
        return CODES[cell if cell in CODES else "."]
    kind, state = KINDS[cell[1]]
    return [kind, COLOURS[cell[0]], state]


def view_with(thing: str, column: int, row: int) -> list[list[list[int]]]:
    """Return an open space with one thing."""
    cells = [["."] * 7 for _ in range(7)]
    cells[row][column] = thing
    return view_of("\n".join(map(" ".join, cells)))


PLACES = [
    [
        "3 steps left and 6 steps forward",
        "2 steps left and 6 steps forward",
        "1 step left and 6 steps forward",
        "6 steps forward",
        "1 step right and 6 steps forward",
        "2 steps right and 6 steps forward",
        "3 steps right and 6 steps forward",
    ],
    [
        "3 steps left and 5 steps forward",
        "2 steps left and 5 steps forward",
        "1 step left and 5 steps forward",
        "5 steps forward",
        "1 step right and 5 steps forward",
        "2 steps right and 5 steps forward",
        "3 steps right and 5 steps forward",
    ],
    [
        "3 steps left and 4 steps forward",
        "2 steps left and 4 steps forward",
        "1 step left and 4 steps forward",
        "4 steps forward",
        "1 step right and 4 steps forward",
        "2 steps right and 4 steps forward",
        "3 steps right and 4 steps forward",
    ],
    [
        "3 steps left and 3 steps forward",
        "2 steps left and 3 steps forward",
        "1 step left and 3 steps forward",
        "3 steps forward",
        "1 step right and 3 steps forward",
        "2 steps right and 3 steps forward",
        "3 steps right and 3 steps forward",
    ],
    [
        "3 steps left and 2 steps forward",
        "2 steps left and 2 steps forward",
        "1 step left and 2 steps forward",
        "2 steps forward",
        "1 step right and 2 steps forward",
        "2 steps right and 2 steps forward",
        "3 steps right and 2 steps forward",
    ],
    [
        "3 steps left and 1 step forward",
        "2 steps left and 1 step forward",
        "1 step left and 1 step forward",
        "1 step forward",
        "1 step right and 1 step forward",
        "2 steps right and 1 step forward",
        "3 steps right and 1 step forward",
    ],
    ["3 steps left", "2 steps left", "1 step left", "", "1 step right", "2 steps right", "3 steps right"],
]
"""Place of each cell of a view, the farthest row first."""

NAMES = {
    "rk": "a red key",
    "go": "a green ball",
    "bx": "a blue box",
    "e_": "a open grey door",
    "pD": "a closed purple door",
    "yL": "a locked yellow door",
}


@pytest.mark.parametrize("thing", NAMES)
@pytest.mark.parametrize(("row", "column"), [(row, column) for row in range(7) for column in range(7)][:-4])
def test_each_thing_is_described_at_each_cell(thing: str, row: int, column: int) -> None:
    assert describe(view_with(thing, column, row)) == [f"You see {NAMES[thing]} {PLACES[row][column]}"]


@for_each("thing, column", product(NAMES, [4, 5, 6]))
def test_each_thing_is_described_on_the_right(thing: str, column: int) -> None:
    assert describe(view_with(thing, column, 6)) == [f"You see {NAMES[thing]} {PLACES[6][column]}"]


WALLS = {
    (3, 5): ["You see a wall 1 step forward"],
    (3, 4): ["You see a wall 2 steps forward"],
    (3, 3): ["You see a wall 3 steps forward"],
    (3, 2): ["You see a wall 4 steps forward"],
    (3, 1): ["You see a wall 5 steps forward"],
    (3, 0): ["You see a wall 6 steps forward"],
    (2, 6): ["You see a wall 1 step left"],
    (1, 6): ["You see a wall 2 steps left"],
    (0, 6): ["You see a wall 3 steps left"],
    (4, 6): ["You see a wall 1 step right"],
    (5, 6): ["You see a wall 2 steps right"],
    (6, 6): ["You see a wall 3 steps right"],
}
"""Walls that are described, by column and row; all others are silent."""


@for_each("column, row", [(column, row) for column in range(7) for row in range(7)])
def test_a_wall_is_described_ahead_left_and_right_only(column: int, row: int) -> None:
    if (column, row) != (3, 6):
        assert describe(view_with("#", column, row)) == WALLS.get((column, row), [])


PICTURES = {
    "nothing is seen": (
        """
        . . . . . . .
        . . . . . . .
        . . . . . . .
        . . . . . . .
        . . . . . . .
        . . . . . . .
        . . . @ . . .
        """,
        [],
    ),
    "what is carried comes first": (
        """
        ? ? ? ? ? ? ?
        ? ? ? ? ? ? ?
        # # # # # # #
        . . . . . . #
        . . . . . . #
        . . . . . . #
        . . . rk . . #
        """,
        ["You carry a red key", "You see a wall 4 steps forward", "You see a wall 3 steps right"],
    ),
    "walls are told ahead, left, right": (
        """
        ? ? ? ? ? ? ?
        ? ? ? ? ? ? ?
        ? ? ? ? ? ? ?
        ? ? ? ? ? ? ?
        ? ? # # # ? ?
        ? ? # . # ? ?
        ? ? # @ # ? ?
        """,
        ["You see a wall 2 steps forward", "You see a wall 1 step left", "You see a wall 1 step right"],
    ),
    "columns go from left to right, and in each from far to near": (
        """
        . . . . . . .
        bo . . . . . .
        . . rk . . . .
        . . . . . . .
        gx . . . . pk .
        . . eo . yx . .
        . . . @ . . .
        """,
        [
            "You see a blue ball 3 steps left and 5 steps forward",
            "You see a green box 3 steps left and 2 steps forward",
            "You see a red key 1 step left and 4 steps forward",
            "You see a grey ball 1 step left and 1 step forward",
            "You see a yellow box 1 step right and 1 step forward",
            "You see a purple key 2 steps right and 2 steps forward",
        ],
    ),
    "a thing ahead hides the wall behind it": (
        """
        . . . # . . .
        . . . . . . .
        . . . ro . . .
        . . . . . . .
        . . . . . . .
        . . . . . . .
        # . . @ . . #
        """,
        ["You see a wall 3 steps left", "You see a wall 3 steps right", "You see a red ball 4 steps forward"],
    ),
    "things aside hide the walls behind them": (
        """
        . . . # . . .
        . . . . . . .
        . . . . . . .
        . . . . . . .
        . . . . . . .
        . . . . . . .
        # gk . @ bx # .
        """,
        ["You see a wall 6 steps forward", "You see a green key 2 steps left", "You see a blue box 1 step right"],
    ),
    "a thing hides no other thing": (
        """
        . . . . . . .
        . . . yo . . .
        . . . . . . .
        . . . yx . . .
        . . . . . . .
        . . . . . . .
        . . . @ ek ek ek
        """,
        [
            "You see a yellow ball 5 steps forward",
            "You see a yellow box 3 steps forward",
            "You see a grey key 1 step right",
            "You see a grey key 2 steps right",
            "You see a grey key 3 steps right",
        ],
    ),
    "unseen cells hide no wall": (
        """
        . . . # . . .
        . . . ? . . .
        . . . ? . . .
        . . . . . . .
        . . . . . . .
        . . . . . . .
        # ? . @ ? # .
        """,
        ["You see a wall 6 steps forward", "You see a wall 3 steps left", "You see a wall 2 steps right"],
    ),
    "a locked door in the wall ahead": (
        """
        ? ? ? ? ? ? ?
        ? ? ? ? ? ? ?
        # # # bL # # #
        . . . . . . .
        . . . . . . .
        . . . . . . .
        . . . @ . . .
        """,
        ["You see a locked blue door 4 steps forward"],
    ),
    "an open door shows what is behind it": (
        """
        ? ? . . . ? ?
        ? ? . ro . ? ?
        ? ? . . . ? ?
        ? # # e_ # ? ?
        . . . . . . .
        . . . . . . #
        . . . bk . . #
        """,
        [
            "You carry a blue key",
            "You see a wall 3 steps right",
            "You see a red ball 5 steps forward",
            "You see a open grey door 3 steps forward",
        ],
    ),
    "the example of the paper's appendix D": (
        """
        ? ? ? ? ? ? ?
        ? # # # # # #
        ? # . . bo px .
        ? # . . . . .
        ? # . . . . px
        ? # . . . . .
        ? # . @ . . bx
        """,
        [
            "You see a wall 5 steps forward",
            "You see a wall 2 steps left",
            "You see a blue ball 1 step right and 4 steps forward",
            "You see a purple box 2 steps right and 4 steps forward",
            "You see a purple box 3 steps right and 2 steps forward",
            "You see a blue box 3 steps right",
        ],
    ),
    "the example of the paper's appendix C": (
        """
        . # . . . . .
        . # . . . . .
        . # . . . . .
        . # . . . . .
        . # . po ro . .
        . # ek . . . .
        . # . @ . . .
        """,
        [
            "You see a wall 2 steps left",
            "You see a grey key 1 step left and 1 step forward",
            "You see a purple ball 2 steps forward",
            "You see a red ball 1 step right and 2 steps forward",
        ],
    ),
}


@for_each("name", PICTURES)
def test_a_view_is_described_by_the_rules(name: str) -> None:
    drawing, lines = PICTURES[name]
    assert describe(view_of(drawing)) == lines


def test_a_thought_says_where_the_first_such_thing_is() -> None:
    lines = [
        "You carry a red key",
        "You see a red ball 2 steps left",
        "You see a closed red door 1 step forward",
        "You see a red ball 1 step right",
    ]
    assert find(lines, "red", "ball") == "The red ball: 2 steps left."
    assert find(lines, "red", "door") == "The red door: 1 step forward."
    assert find(lines, "red", "key") == "I do not see the red key."
    assert find([], "", "door") == "I do not see the door."
