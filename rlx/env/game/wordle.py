"""Wordle: find a word; each letter of a guess is marked.

Guess a word of 5 letters.  ->  crane  ->  c r a n e / X Y G X Y  ->  ...  ->  correct
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from random import Random
from typing import ClassVar

from rlx.base.limits import within
from rlx.env.game.turns import Game, Turns, go_on, win
from rlx.env.game.words import LONGEST, SHORTEST, letter_counts, letters_of, words_of
from rlx.types import Action, Move, Step, Task, Text, Verb


@dataclass(frozen=True, kw_only=True)
class Wordle(Game):
    """The word is worth 0.5, and so are its letters together, each where it is first in place."""

    actions: ClassVar = (Verb(name="guess", description="guess", argument="word"),)
    stream: ClassVar = "wordle"

    length: int = 5
    """Letters of the word, 3 to 8."""
    max_turns: int = 20
    """Largest number of guesses of a game."""
    random: bool = False
    """Draw words of 3, 4 or 5 letters, with five guesses per letter."""

    def __post_init__(self) -> None:
        super().__post_init__()
        within(SHORTEST, LONGEST, length=self.length)

    def draw(self, rng: Random) -> Task:
        length = rng.randint(3, 5) if self.random else self.length
        return describe(rng.choice(words_of(length)), 5 * length if self.random else self.max_turns)

    def start(self, task: Task) -> WordleEpisode:
        return WordleEpisode(**task.data)

    def demonstrate(self, task: Task, seed: int, tools: Sequence[str]) -> Iterator[Move]:
        """Guess the word whose letters most of the words have that fit all marks."""
        rng = Random(f"wordle/expert/{seed}/{task.id}")
        word = task.data["word"]
        left = sorted({word, *words_of(len(word))})
        while True:
            counts = letter_counts(left)
            attempt = max(rng.sample(left, len(left)), key=lambda other: sum(counts[letter] for letter in set(other)))
            yield Move(thought=f"{len(left)} words fit." if len(left) > 1 else "One word fits.", action=guess(attempt))
            if attempt == word:
                return
            answer = marks(word, attempt)
            left = [other for other in left if marks(other, attempt) == answer]

    def random_tries(self, task: Task, num: int, seed: int) -> list[Action]:
        """The honest floor: distinct random words of that length (fewer, if there are no more)."""
        rng = Random(f"wordle/random/{seed}/{task.id}")
        words = words_of(len(task.data["word"]))
        return [guess(word) for word in rng.sample(words, min(num, len(words)))]


def describe(word: str, max_turns: int) -> Task:
    return Task(
        id=word,
        prompt=(
            Text(
                f"Guess a word of {len(word)} letters. Each letter of a guess is marked G if it is right and in place, "
                f"Y if it is right but elsewhere, X if the word has no more of it. You have {max_turns} guesses."
            ),
        ),
        data={"word": word, "max_turns": max_turns},
    )


@lru_cache(maxsize=2**14)
def marks(word: str, guess: str) -> str:
    """G, Y or X for each letter of a guess; no letter of the word counts twice, and those in place count first."""
    left = [letter for letter, guessed in zip(word, guess) if letter != guessed]
    answer = ""
    for letter, guessed in zip(word, guess):
        if letter == guessed:
            answer += "G"
        elif guessed in left:
            left.remove(guessed)
            answer += "Y"
        else:
            answer += "X"
    return answer


class WordleEpisode(Turns):
    def __init__(self, word: str, max_turns: int) -> None:
        super().__init__(max_turns)
        self.word = word
        self.in_place: set[int] = set()
        self.guesses: set[str] = set()

    def play(self, action: Action) -> Step | None:
        guess = letters_of(action.text) if action.kind == "act" else None
        if guess is None:
            return None
        if len(guess) != len(self.word):
            return go_on(f"the word has {len(self.word)} letters")
        if guess in self.guesses:
            return go_on(f"you guessed {guess} before")
        self.guesses.add(guess)
        answer = marks(self.word, guess)
        gain = self.newly_in_place(answer) if "G" in answer else 0.0
        if guess == self.word:
            return win("correct", 0.5 + gain)
        return go_on(f"{' '.join(guess)}\n{' '.join(answer)}", gain)

    def newly_in_place(self, answer: str) -> float:
        places = {place for place, mark in enumerate(answer) if mark == "G"} - self.in_place
        self.in_place |= places
        return 0.5 * len(places) / len(answer)


def guess(word: str) -> Action:
    return Action(kind="act", name="guess", text=word)
