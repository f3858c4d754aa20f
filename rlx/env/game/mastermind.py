"""Mastermind: find a code of digits; a guess is told how many of them are right.

Find the code of 4 different digits from 1 to 8.  ->  1 2 3 4  ->  1 2 3 4: black 1 white 2  ->  ...  ->  correct
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import permutations, product
from math import perm
from operator import eq
from random import Random
from typing import ClassVar

from rlx.base.limits import refuse, within
from rlx.env.game.turns import Game, Turns, go_on, parse_numbers, win
from rlx.types import Action, Move, Step, Task, Text, Verb

Code = tuple[int, ...]

SIZES = ((2, 4, 10), (4, 6, 20), (4, 8, 30))
"""Digits of the code, the highest digit and guesses of random games."""
LONGEST = 6
"""Digits of a code."""
ANSWERS = [[f"black {black} white {white}" for white in range(LONGEST + 1)] for black in range(LONGEST)]
"""Answers, by black and white pegs."""


@dataclass(frozen=True, kw_only=True)
class Mastermind(Game):
    """The reward is the share of the code's digits that are right and in place for the first time: 1 in all."""

    actions: ClassVar = (Verb(name="guess", description="guess", argument="digits"),)
    stream: ClassVar = "mastermind"

    length: int = 4
    """Digits of the code."""
    highest: int = 6
    """The digits are from 1 to this one, 9 at most."""
    repeats: bool = False
    """A digit may stand in the code more than once."""
    max_turns: int = 20
    """Largest number of guesses of a game."""
    random: bool = False
    """Each task has a length, a highest digit and a number of guesses of its own."""

    def __post_init__(self) -> None:
        super().__post_init__()
        within(1, LONGEST, length=self.length)
        within(2, 9, highest=self.highest)
        if self.length > self.highest and not self.repeats:
            refuse("length", self.length, f"at most highest={self.highest} digits, or repeats=true")

    def draw(self, rng: Random) -> Task:
        size = rng.choice(SIZES) if self.random else (self.length, self.highest, self.max_turns)
        return describe(draw_code(rng, *size[:2], self.repeats), size[1], self.repeats, size[2])

    def start(self, task: Task) -> MastermindEpisode:
        return MastermindEpisode(task.data["code"], task.data["highest"], task.data["max_turns"])

    def demonstrate(self, task: Task, seed: int, tools: Sequence[str]) -> Iterator[Move]:
        """The first code, in an order drawn at random, that all earlier answers allow."""
        rng = Random(f"mastermind/expert/{seed}/{task.id}")
        code = tuple(task.data["code"])
        answers: list[tuple[Code, tuple[int, int]]] = []
        for candidate in every_code(rng, len(code), task.data["highest"], task.data["repeats"]):
            if all(pegs(candidate, guessed) == answer for guessed, answer in answers):
                yield Move(thought="It fits every answer." if answers else "I start anywhere.", action=guess(candidate))
                answers.append((candidate, pegs(code, candidate)))
            if candidate == code:
                return

    def random_tries(self, task: Task, num: int, seed: int) -> list[Action]:
        """The honest floor: distinct random codes (fewer, if there are no more)."""
        rng = Random(f"mastermind/random/{seed}/{task.id}")
        length, highest, repeats = len(task.data["code"]), task.data["highest"], task.data["repeats"]
        num_codes = highest**length if repeats else perm(highest, length)
        codes: dict[Code, None] = {}
        while len(codes) < min(num, num_codes):
            codes[draw_code(rng, length, highest, repeats)] = None
        return [guess(code) for code in codes]


@lru_cache(maxsize=4096)
def describe(code: Code, highest: int, repeats: bool, max_turns: int) -> Task:
    digits = "digits" if repeats else "different digits"
    return Task(
        id=f"{highest}/{''.join(map(str, code))}",
        prompt=(
            Text(
                f"Find the code of {len(code)} {digits} from 1 to {highest}. You are told how many digits of a guess "
                "are right and in place (black), and how many are right but elsewhere (white). "
                f"You have {max_turns} guesses."
            ),
        ),
        data={"code": list(code), "highest": highest, "repeats": repeats, "max_turns": max_turns},
    )


def draw_code(rng: Random, length: int, highest: int, repeats: bool) -> Code:
    digits = range(1, highest + 1)
    return tuple(rng.choices(digits, k=length) if repeats else rng.sample(digits, length))


def every_code(rng: Random, length: int, highest: int, repeats: bool) -> Iterator[Code]:
    digits = rng.sample(range(1, highest + 1), highest)
    return product(digits, repeat=length) if repeats else permutations(digits, length)


def pegs(code: Code, guess: Code) -> tuple[int, int]:
    """Count digits that are right and in place, and other right digits; no digit of the code counts twice."""
    black = sum(map(eq, code, guess))
    left = list(code)
    for digit in guess:
        if digit in left:
            left.remove(digit)
    return black, len(code) - len(left) - black


class MastermindEpisode(Turns):
    def __init__(self, code: Iterable[int], highest: int, max_turns: int) -> None:
        super().__init__(max_turns)
        self.code, self.highest = tuple(code), highest
        self.most_black = 0
        self.guesses: set[Code] = set()

    def play(self, action: Action) -> Step | None:
        guess = parse_numbers(action.text) if action.kind == "act" else None
        if guess is None:
            return None
        if len(guess) != len(self.code):
            return go_on(f"the code has {len(self.code)} digits")
        if min(guess) < 1 or max(guess) > self.highest:
            return go_on(f"digits are from 1 to {self.highest}")
        if guess in self.guesses:
            return go_on(f"you guessed {write_code(guess)} before")
        self.guesses.add(guess)
        return self.answer(guess)

    def answer(self, guess: Code) -> Step:
        black, white = pegs(self.code, guess)
        gain = max(0, black - self.most_black) / len(self.code)
        self.most_black = max(self.most_black, black)
        if black == len(self.code):
            return win("correct", gain)
        return go_on(f"{write_code(guess)}: {ANSWERS[black][white]}", gain)


def guess(code: Code) -> Action:
    return Action(kind="act", name="guess", text=write_code(code))


def write_code(code: Code) -> str:
    return " ".join(map(str, code))
