"""Words laid across and down on a square board, through each other where they share a letter.

. h . .
i o n .     hot is laid down from row 0 column 1, ion across from row 1 column 0
. t . .
. . . .
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import count
from random import Random
from typing import Literal, NamedTuple

from rlx.env.game.turns import Game
from rlx.env.game.words import LONGEST, SHORTEST
from rlx.limits import refuse, within

Way = Literal["across", "down"]
WAYS: tuple[Way, ...] = ("across", "down")
SIDE = 1.5
"""Of a board: cells for each letter of its longest word."""
PATIENCE = 20
"""Draws of words that find no place, after which boards grow by one."""
LENGTHS = ((3, 5), (6, 8))
"""Of random games: letters of the shortest word and of the longest."""


@dataclass(frozen=True, kw_only=True)
class Crossing(Game):
    """A game with words that are laid so."""

    num_words: int = 5
    """Words of a puzzle."""
    shortest: int = 3
    """Letters that they have at least."""
    longest: int = 5
    """Letters that they have at most. The board is one and a half times as wide as the longest word drawn."""
    random: bool = False
    """Each task has either words of 3 to 5 letters or words of 6 to 8."""

    def __post_init__(self) -> None:
        super().__post_init__()
        within(1, 10, num_words=self.num_words)
        within(SHORTEST, LONGEST, shortest=self.shortest, longest=self.longest)
        if self.shortest > self.longest:
            refuse("shortest", self.shortest, f"at most longest={self.longest}")

    def lengths(self, rng: Random) -> tuple[int, int]:
        """Letters of a task's shortest word and of its longest, at most."""
        return rng.choice(LENGTHS) if self.random else (self.shortest, self.longest)


class Laid(NamedTuple):
    """A word and where it is."""

    word: str
    row: int
    col: int
    way: Way

    def cells(self, width: int) -> range:
        """Of a board so wide, numbered row by row."""
        first, step = self.row * width + self.col, 1 if self.way == "across" else width
        return range(first, first + step * len(self.word), step)

    def ends(self) -> tuple[int, int, int, int]:
        """Row and column of its first letter, and of its last."""
        rest = len(self.word) - 1
        down, right = (0, rest) if self.way == "across" else (rest, 0)
        return self.row, self.col, self.row + down, self.col + right


def layouts(rng: Random, words: Sequence[str], num: int) -> Iterator[tuple[list[Laid], int]]:
    """Endless: so many of the words, laid on a board, and its side."""
    for attempt in count():
        drawn = rng.sample(words, num)
        side = round(SIDE * max(map(len, drawn))) + attempt // PATIENCE
        laid = lay(rng, drawn, side)
        if laid:
            yield laid, side


def lay(rng: Random, words: Sequence[str], side: int) -> list[Laid] | None:
    """The longest first; each through another one if it can be, elsewhere if not. None if one finds no place.

    Words touch only where they cross, so that whatever letters stand in a row are one of them.
    """
    laid: list[Laid] = []
    width = side + 1  # a gutter, so that no row goes on in the next
    for word in sorted(words, key=len, reverse=True):
        letters = letters_on(laid, width)
        places = [one for one in places_of(word, side) if is_free(one, laid, letters, width)]
        if not places:
            return None
        crossing = [one for one in places if any(cell in letters for cell in one.cells(width))]
        laid.append(rng.choice(crossing or places))
    return laid


def places_of(word: str, side: int) -> Iterator[Laid]:
    """Wherever there is room for it."""
    for along in range(side - len(word) + 1):
        for beside in range(side):
            yield Laid(word, beside, along, "across")
            yield Laid(word, along, beside, "down")


def letters_on(laid: Sequence[Laid], width: int) -> dict[int, str]:
    return {cell: letter for one in laid for cell, letter in zip(one.cells(width), one.word)}


def is_free(place: Laid, laid: Sequence[Laid], letters: dict[int, str], width: int) -> bool:
    cells = place.cells(width)
    if cells[0] - cells.step in letters or cells[-1] + cells.step in letters:
        return False
    aside = width + 1 - cells.step
    for cell, letter in zip(cells, place.word):
        if cell not in letters:
            if cell - aside in letters or cell + aside in letters:
                return False
        elif letters[cell] != letter or any(one.way == place.way and cell in one.cells(width) for one in laid):
            return False
    return True
