"""Words laid across and down on a square board, through each other where they share a letter.

. h . .
i o n .     hot is laid down from row 0 column 1, ion across from row 1 column 0
. t . .
. . . .
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import count
from random import Random
from typing import Literal, NamedTuple

from rlx.base.limits import refuse, within
from rlx.env.game.turns import Game
from rlx.env.game.words import LONGEST, SHORTEST

Way = Literal["across", "down"]
WAYS: tuple[Way, ...] = ("across", "down")
SIDE = 1.5
"""Side of a board, in lengths of its longest word."""
PATIENCE = 20
"""Draws of words that find no place, after which boards grow by one."""
LENGTHS = ((3, 5), (6, 8))
"""Lengths of the shortest word and of the longest, of which random games choose."""


@dataclass(frozen=True, kw_only=True)
class Crossing(Game):
    """A game with words that are laid so."""

    num_words: int = 5
    """Words of a puzzle, 10 at most."""
    shortest: int = 3
    """Letters that a word has at least, 3 to 8."""
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
        """Return the cells on a board of this width, numbered row by row."""
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
    """Place the longest words first, each across an earlier word if possible, else elsewhere; None if a word finds no
    place.

    Words touch only at crossings, so any run of letters in a row or column is a word of the list.
    """
    laid: list[Laid] = []
    board = Board(side)
    for word in sorted(words, key=len, reverse=True):
        places: Sequence[int] = [place for place in board.crossings(word) if board.is_free(word, place)]
        if not places:
            places = [place for place, zone in enumerate(zones(side, len(word))) if not zone & board.mask]
        if not places:
            return None
        laid.append(place_of(word, rng.choice(places), side))
        board.put(laid[-1])
    return laid


class Board:
    """Letters on a board, with a gutter beside it, so that no row goes on in the next.

    Places of a word are numbered as `places_of` has them: ((column * side) + row) * 2 across, and down with rows and
    columns exchanged, + 1.
    """

    def __init__(self, side: int) -> None:
        self.side, self.width = side, side + 1
        self.mask = 0
        """Cells with a letter, as bits."""
        self.letters: dict[int, str] = {}
        self.cells_of: dict[str, list[int]] = {}
        """Cells with a letter."""
        self.taken: tuple[set[int], set[int]] = (set(), set())
        """Cells of words across, and of words down."""

    def put(self, placed_word: Laid) -> None:
        for cell, letter in zip(placed_word.cells(self.width), placed_word.word):
            if cell not in self.letters:
                self.letters[cell] = letter
                self.mask |= 1 << cell
                self.cells_of.setdefault(letter, []).append(cell)
            self.taken[placed_word.way == "down"].add(cell)

    def crossings(self, word: str) -> list[int]:
        """Return the places at which a letter of the word meets the same letter, in order."""
        side, room, places = self.side, self.side - len(word), set()
        for index, letter in enumerate(word):
            for cell in self.cells_of.get(letter, ()):
                row, col = divmod(cell, self.width)
                if 0 <= col - index <= room and cell not in self.taken[0]:
                    places.add(((col - index) * side + row) * 2)
                if 0 <= row - index <= room and cell not in self.taken[1]:
                    places.add(((row - index) * side + col) * 2 + 1)
        return sorted(places)

    def is_free(self, word: str, place: int) -> bool:
        """True if the word fits: it crosses words of the other way at equal letters, and touches none elsewhere."""
        letters, width = self.letters, self.width
        along, beside = divmod(place >> 1, self.side)
        if place & 1:
            cell, step, aside, way_cells = along * width + beside, width, 1, self.taken[1]
        else:
            cell, step, aside, way_cells = beside * width + along, 1, width, self.taken[0]
        if cell - step in letters or cell + len(word) * step in letters:
            return False
        for letter in word:
            if cell in letters:
                if letters[cell] != letter or cell in way_cells:
                    return False
            elif cell - aside in letters or cell + aside in letters:
                return False
            cell += step
        return True


@cache
def zones(side: int, length: int) -> tuple[int, ...]:
    """Return the cells of each place of such a word and all that touch them, as bits."""
    width, zone_masks = side + 1, []
    for place in range((side - length + 1) * side * 2):
        placed_word = place_of("?" * length, place, side)
        cells = placed_word.cells(width)
        aside = width + 1 - cells.step
        touched = {
            cells[0] - cells.step,
            cells[-1] + cells.step,
            *(cell + by for cell in cells for by in (-aside, 0, aside)),
        }
        zone_masks.append(sum(1 << cell for cell in touched if cell >= 0))
    return tuple(zone_masks)


def place_of(word: str, place: int, side: int) -> Laid:
    """Return a word at the place of that number."""
    along, beside = divmod(place >> 1, side)
    return Laid(word, along, beside, "down") if place & 1 else Laid(word, beside, along, "across")


def places_of(word: str, side: int) -> Iterator[Laid]:
    """Wherever there is room for it."""
    for along in range(side - len(word) + 1):
        for beside in range(side):
            yield Laid(word, beside, along, "across")
            yield Laid(word, along, beside, "down")


def letters_on(laid: Sequence[Laid], width: int) -> dict[int, str]:
    return {cell: letter for placed_word in laid for cell, letter in zip(placed_word.cells(width), placed_word.word)}
