"""Hangman: find a word by asking for letters, then say it.

_ _ _ _ _  ->  a  ->  a is in it / _ _ a _ _ / tried a  ->  ...  ->  crane  ->  correct
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from random import Random
from string import ascii_lowercase
from typing import ClassVar

from rlx.base.limits import within
from rlx.env.game.turns import Game, Turns, go_on, win
from rlx.env.game.words import LONGEST, SHORTEST, letter_counts, letters_of, words_of
from rlx.types import Action, Move, Step, Task, Text, Verb

SIZES = ((3, 10), (5, 15), (7, 20))
"""Letters of the word and turns of random games."""


@dataclass(frozen=True, kw_only=True)
class Hangman(Game):
    """The word is worth 0.5, and so are its letters together: each when it is found, the rest with the word."""

    actions: ClassVar = (Verb(name="guess", description="guess", argument="letter or word"),)
    stream: ClassVar = "hangman"

    length: int = 5
    """Letters of the word, 3 to 8."""
    max_turns: int = 20
    """Turns of a game."""
    random: bool = False
    """Each task has a word of 3, 5 or 7 letters, and 10, 15 or 20 turns."""

    def __post_init__(self) -> None:
        super().__post_init__()
        within(SHORTEST, LONGEST, length=self.length)

    def draw(self, rng: Random) -> Task:
        length, max_turns = rng.choice(SIZES) if self.random else (self.length, self.max_turns)
        return describe(rng.choice(words_of(length)), max_turns)

    def start(self, task: Task) -> HangmanEpisode:
        return HangmanEpisode(**task.data)

    def demonstrate(self, task: Task, seed: int, tools: Sequence[str]) -> Iterator[Move]:
        """The letter that most of the words have which fit; one of them, once there are two or it is the last turn."""
        rng = Random(f"hangman/expert/{seed}/{task.id}")
        word, tried, num_turns = task.data["word"], "", 1
        left = rng.sample(words := sorted({word, *words_of(len(word))}), len(words))
        while True:
            is_word = len(left) <= 2 or num_turns == task.data["max_turns"]
            attempt = left[0] if is_word else best_letter(left, tried)
            yield Move(thought=f"{len(left)} words fit." if len(left) > 1 else "One word fits.", action=guess(attempt))
            if attempt == word:
                return
            tried, num_turns = tried if is_word else tried + attempt, num_turns + 1
            left = [other for other in left if mask_word(other, tried) == mask_word(word, tried) and other != attempt]

    def random_tries(self, task: Task, num: int, seed: int) -> list[Action]:
        """The honest floor: distinct random letters and words of that length, as many of the one as of the other."""
        rng = Random(f"hangman/random/{seed}/{task.id}")
        letters = rng.sample(ascii_lowercase, 26)
        words = words_of(len(task.data["word"]))
        drawn = [*letters[: num // 2], *rng.sample(words, min(num - num // 2, len(words)))]
        return [guess(attempt) for attempt in rng.sample(drawn, len(drawn))]


def describe(word: str, max_turns: int) -> Task:
    return Task(
        id=word,
        prompt=(
            Text(
                f"Find a word of {len(word)} letters. Guess a letter, to see where it stands, or the whole word: that "
                f"wins. You have {max_turns} turns."
            ),
        ),
        data={"word": word, "max_turns": max_turns},
    )


def best_letter(words: Sequence[str], tried: str) -> str:
    """The letter not yet tried that most words have, but not all."""
    counts = letter_counts(words)
    return max((letter for letter in counts if letter not in tried), key=lambda other: counts[other] % len(words))


def mask_word(word: str, tried: str) -> str:
    return " ".join(letter if letter in tried else "_" for letter in word)


class HangmanEpisode(Turns):
    def __init__(self, word: str, max_turns: int) -> None:
        super().__init__(max_turns)
        self.word, self.tried = word, ""

    def opening(self) -> Step:
        return go_on(mask_word(self.word, ""))

    def play(self, action: Action) -> Step | None:
        guess = letters_of(action.text) if action.kind == "act" else None
        if guess is None:
            return None
        if len(guess) == 1:
            return self.ask(guess)
        if len(guess) != len(self.word):
            return self.show(f"the word has {len(self.word)} letters")
        if guess != self.word:
            return self.show(f"it is not {guess}")
        return win("correct", 0.5 + 0.5 * sum(letter not in self.tried for letter in self.word) / len(self.word))

    def ask(self, letter: str) -> Step:
        if letter in self.tried:
            return self.show(f"you tried {letter} before")
        self.tried += letter
        share = self.word.count(letter) / len(self.word)
        return self.show(f"{letter} is in it" if share else f"{letter} is not in it", 0.5 * share)

    def show(self, text: str, reward: float = 0.0) -> Step:
        tried = f"\ntried {' '.join(self.tried)}" if self.tried else ""
        return go_on(f"{text}\n{mask_word(self.word, self.tried)}{tried}", reward)


def guess(text: str) -> Action:
    return Action(kind="act", name="guess", text=text)
