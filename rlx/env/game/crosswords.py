"""Crosswords: find words by their clues, and put them in letter by letter.

1. down from row 0 column 1, 3 letters: not cold  ->  0 1 h  ->  h is right, then the board  ->  ...
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from random import Random
from string import ascii_lowercase
from typing import ClassVar

from rlx.base.limits import refuse
from rlx.env.game.board import BoardTurns
from rlx.env.game.crossing import LENGTHS, Crossing, Laid, Way, layouts, letters_on
from rlx.env.game.turns import parse_numbers, win
from rlx.env.game.words import clued_between, every_clue, letters_of
from rlx.types import Action, Move, Step, Task, Text, Verb


@dataclass(frozen=True, kw_only=True)
class Crosswords(Crossing):
    """The reward is an equal share for each letter put in: 1 in all. Words are so short that there is a turn for each
    of their letters."""

    actions: ClassVar = (Verb(name="put", description="put in a letter", argument="row column letter"),)
    stream: ClassVar = "crosswords"

    max_turns: int = 100
    """Turns of a game; no puzzle has more letters."""

    def __post_init__(self) -> None:
        super().__post_init__()
        least = self.num_words * (LENGTHS[-1][0] if self.random else self.shortest)
        if self.max_turns < least:
            refuse("max_turns", self.max_turns, f"{least} or more, a turn for each letter")

    def draw(self, rng: Random) -> Task:
        shortest, longest = self.lengths(rng)
        longest = min(longest, self.max_turns // self.num_words)
        laid, side = next(layouts(rng, clued_between(shortest, longest), self.num_words))
        return describe(laid, [every_clue()[entry.word] for entry in laid], side, self.max_turns)

    def start(self, task: Task) -> CrosswordsEpisode:
        return CrosswordsEpisode(task.data["words"], task.data["side"], task.data["max_turns"])

    def demonstrate(self, task: Task, seed: int, tools: Sequence[str]) -> Iterator[Move]:
        """One who knows the words: clue by clue, letter by letter, none twice."""
        side, put = task.data["side"], set[int]()
        for word, clue in zip(task.data["words"], task.data["clues"], strict=True):
            entry = Laid(*word)
            for cell, letter in zip(entry.cells(side), entry.word):
                if cell not in put:
                    yield Move(thought=f"{clue}: {entry.word}.", action=fill(cell, side, letter))
                    put.add(cell)

    def random_tries(self, task: Task, num: int, seed: int) -> list[Action]:
        """The honest floor: distinct random letters where letters belong (fewer, if there are no more)."""
        rng = Random(f"crosswords/random/{seed}/{task.id}")
        side = task.data["side"]
        cells = letters_on([Laid(*word) for word in task.data["words"]], side)
        tries = [(cell, letter) for cell in cells for letter in ascii_lowercase]
        return [fill(cell, side, letter) for cell, letter in rng.sample(tries, min(num, len(tries)))]


def describe(laid: Sequence[Laid], clues: Sequence[str], side: int, max_turns: int) -> Task:
    clue_lines = [
        f"{num}. {entry.way} from row {entry.row} column {entry.col}, {len(entry.word)} letters: {clue}"
        for num, (entry, clue) in enumerate(zip(laid, clues, strict=True), start=1)
    ]
    rules = (
        "Fill the crossword: _ is a letter to be found. Say its row, its column and the letter. "
        f"You have {max_turns} turns."
    )
    return Task(
        id=f"{side}/{'-'.join(f'{entry.word}.{entry.row}.{entry.col}.{entry.way[0]}' for entry in laid)}",
        prompt=(Text("\n".join([rules, *clue_lines])),),
        data={"words": [list(entry) for entry in laid], "clues": list(clues), "side": side, "max_turns": max_turns},
    )


class CrosswordsEpisode(BoardTurns):
    def __init__(self, words: Sequence[tuple[str, int, int, Way]], side: int, max_turns: int) -> None:
        super().__init__(max_turns, side, side)
        self.side = side
        self.letters = letters_on([Laid(*word) for word in words], side)
        self.num_letters = len(self.letters)
        self.filled: set[int] = set()
        for cell in self.letters:
            self.board[self.places[cell]] = ord("_")

    def play(self, action: Action) -> Step | None:
        *numbers, last = action.text.split() or [""]
        where, letter = parse_numbers(" ".join(numbers)), letters_of(last)
        if action.kind != "act" or where is None or len(where) != 2 or letter is None or len(letter) > 1:
            return None
        row, col = where
        cell = row * self.side + col
        if max(where) >= self.side:
            return self.show(f"{row} {col} is not on the board")
        if cell not in self.letters:
            return self.show(f"no letter belongs at {row} {col}")
        if cell in self.filled:
            return self.show(f"{row} {col} is filled already")
        return self.put(cell, letter) if self.letters[cell] == letter else self.show(f"{row} {col} is not {letter}")

    def put(self, cell: int, letter: str) -> Step:
        self.filled.add(cell)
        self.board[self.places[cell]] = ord(letter)
        share = 1 / self.num_letters
        is_full = len(self.filled) == self.num_letters
        return win("all is filled", share) if is_full else self.show(f"{letter} is right", share)


def fill(cell: int, side: int, letter: str) -> Action:
    row, col = divmod(cell, side)
    return Action(kind="act", name="put", text=f"{row} {col} {letter}")
