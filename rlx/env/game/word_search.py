"""Word search: find words among letters, across or down.

Find 3 words of 3 to 4 letters.  ->  0 1 2 1  ->  found hot, 2 words left, then the board, where it is in capitals
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from hashlib import sha256
from itertools import chain
from random import Random
from string import ascii_lowercase
from typing import ClassVar

from rlx.env.game.board import BoardTurns
from rlx.env.game.crossing import Crossing, Laid, Way, layouts, letters_on, places_of
from rlx.env.game.turns import parse_numbers, win
from rlx.env.game.words import words_between
from rlx.types import Action, Move, Step, Task, Text, Verb


@dataclass(frozen=True, kw_only=True)
class WordSearch(Crossing):
    """The reward is an equal share for each word: 1 in all."""

    actions: ClassVar = (Verb(name="mark", description="mark a word", argument="row column row column"),)
    stream: ClassVar = "word_search"

    max_turns: int = 20
    """Turns of a game."""

    def draw(self, rng: Random) -> Task:
        drawn = layouts(rng, words_between(*self.lengths(rng)), self.num_words)
        boards = ((fill(rng, laid, side), laid) for laid, side in drawn)
        return next(describe(rows, laid, self.max_turns) for rows, laid in boards if is_plain(rows, laid))

    def start(self, task: Task) -> WordSearchEpisode:
        return WordSearchEpisode(**task.data)

    def demonstrate(self, task: Task, seed: int, tools: Sequence[str]) -> Iterator[Move]:
        """Every word that is read on the board, the longest first, until all are found: it does not know which were
        hidden."""
        rng = Random(f"word_search/expert/{seed}/{task.id}")
        episode = self.start(task)
        lengths = [len(word) for word, *_ in task.data["words"]]
        read = words_on(task.data["rows"], min(lengths), max(lengths))
        for placed_word in sorted(rng.sample(read, len(read)), key=lambda candidate: -len(candidate.word)):
            move = Move(thought=f"I read {placed_word.word} {placed_word.way}.", action=mark(placed_word))
            yield move
            if episode.step(move.action).done:
                return

    def random_tries(self, task: Task, num: int, seed: int) -> list[Action]:
        """The honest floor: distinct random rows of letters as long as words are (fewer, if there are no more)."""
        rng = Random(f"word_search/random/{seed}/{task.id}")
        lengths = [len(word) for word, *_ in task.data["words"]]
        sizes = range(min(lengths), max(lengths) + 1)
        places = list(chain.from_iterable(places_of("?" * size, len(task.data["rows"])) for size in sizes))
        return [mark(place) for place in rng.sample(places, min(num, len(places)))]


def describe(rows: Sequence[str], laid: Sequence[Laid], max_turns: int) -> Task:
    lengths = sorted(len(placed_word.word) for placed_word in laid)
    span = f"{lengths[0]} to {lengths[-1]}" if lengths[0] < lengths[-1] else f"{lengths[0]}"
    words = f"{len(laid)} words" if len(laid) > 1 else "a word"
    return Task(
        id=f"{'-'.join(placed_word.word for placed_word in laid)}/{sha256(''.join(rows).encode()).hexdigest()[:12]}",
        prompt=(
            Text(
                f"Find {words} of {span} letters on the board, across or down. Say the row and the column of a word's "
                f"first letter, then of its last. What is found is shown in capitals. You have {max_turns} turns."
            ),
        ),
        data={"rows": list(rows), "words": [list(placed_word) for placed_word in laid], "max_turns": max_turns},
    )


def fill(rng: Random, laid: Sequence[Laid], side: int) -> list[str]:
    """The rows of the board, random letters where no word is."""
    letters = letters_on(laid, side)
    text = "".join([letters.get(cell) or random_letter(rng) for cell in range(side * side)])
    return [text[start : start + side] for start in range(0, side * side, side)]


def random_letter(rng: Random) -> str:
    """Return what `rng.choice(ascii_lowercase)` returns, in half the time: it fills most of a board."""
    index = rng.getrandbits(5)
    while index >= len(ascii_lowercase):
        index = rng.getrandbits(5)
    return ascii_lowercase[index]


def is_plain(rows: Sequence[str], laid: Sequence[Laid]) -> bool:
    """True if each word can be read in one place alone, forwards or backwards."""
    lines = "\n".join([*rows, *map("".join, zip(*rows))])
    return all(is_once(placed_word.word, lines) for placed_word in laid)


def is_once(word: str, lines: str) -> bool:
    """True if a word and its reverse together stand in one place."""
    position = lines.find(word)
    if lines.find(word, position + 1) >= 0:
        return False
    backwards = word[::-1]
    return backwards == word or lines.find(backwards) < 0


def words_on(rows: Sequence[str], shortest: int, longest: int) -> list[Laid]:
    """Every word that one knows and can read forwards."""
    vocabulary = set(words_between(shortest, longest))
    lines: list[tuple[Way, int, str]] = [
        *(("across", row, line) for row, line in enumerate(rows)),
        *(("down", col, "".join(line)) for col, line in enumerate(zip(*rows))),
    ]
    return [
        Laid(line[start:end], *((beside, start) if way == "across" else (start, beside)), way)
        for way, beside, line in lines
        for start in range(len(line))
        for end in range(start + shortest, min(start + longest, len(line)) + 1)
        if line[start:end] in vocabulary
    ]


class WordSearchEpisode(BoardTurns):
    def __init__(self, rows: Sequence[str], words: Sequence[tuple[str, int, int, Way]], max_turns: int) -> None:
        super().__init__(max_turns, len(rows), len(rows))
        self.side, self.num_words = len(rows), len(words)
        self.hidden: dict[tuple[int, ...], Laid] = {Laid(*word).ends(): Laid(*word) for word in words}
        for place, letter in zip(self.places, "".join(rows).encode()):
            self.board[place] = letter
        self.tried: set[tuple[int, ...]] = set()

    def play(self, action: Action) -> Step | None:
        where = parse_numbers(action.text) if action.kind == "act" else None
        if where is None or len(where) != 4:
            return None
        position_text = " ".join(map(str, where))
        if max(where) >= self.side:
            return self.show(f"{position_text} is not on the board")
        ends = (*min(where[:2], where[2:]), *max(where[:2], where[2:]))
        if ends in self.tried:
            return self.show(f"you tried {position_text} before")
        self.tried.add(ends)
        if ends[0] != ends[2] and ends[1] != ends[3]:
            return self.show(f"words are across or down, not {position_text}")
        placed_word = self.hidden.pop(ends, None)
        return self.reveal(placed_word) if placed_word else self.show(f"no hidden word is at {position_text}")

    def reveal(self, placed_word: Laid) -> Step:
        for cell, letter in zip(placed_word.cells(self.side), placed_word.word.upper().encode()):
            self.board[self.places[cell]] = letter
        left, share = len(self.hidden), 1 / self.num_words
        words = "words" if left > 1 else "word"
        return (
            self.show(f"found {placed_word.word}, {left} {words} left", share)
            if left
            else win(f"found {placed_word.word}", share)
        )


def mark(placed_word: Laid) -> Action:
    return Action(kind="act", name="mark", text=" ".join(map(str, placed_word.ends())))
