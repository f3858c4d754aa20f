"""Guess a number: every guess is met with `higher than` or `lower than` it.

It is a number from 1 to 50.  ->  25  ->  lower than 25  ->  12  ->  correct
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import ceil, sqrt
from random import Random
from typing import ClassVar, Literal

from rlx.base.limits import refuse, within
from rlx.env.game.turns import Game, Turns, go_on, parse_number, win
from rlx.types import Action, Move, Step, Task, Text, Verb

LARGEST = 10**8


@dataclass(frozen=True, kw_only=True)
class GuessTheNumber(Game):
    """The reward is 1 for the number, and where the last guess is not it, the less the farther it is."""

    actions: ClassVar = (Verb(name="guess", description="guess", argument="number"),)
    stream: ClassVar = "guess_the_number"

    low: int = 1
    """Smallest number."""
    high: int = 50
    """Largest number."""
    max_turns: int = 10
    """Largest number of guesses of a game."""
    random: bool = False
    """Draw the range and the number of guesses for each task."""
    expert: Literal["halving", "any"] = "halving"
    """Expert of demonstrations: halving guesses the middle of the remaining range, any a random number in it."""

    def __post_init__(self) -> None:
        super().__post_init__()
        within(0, LARGEST, low=self.low, high=self.high)
        if self.high - self.low < 1:
            refuse("high", self.high, f"a number above low={self.low}")

    @property
    def apart(self) -> bool:
        """A number is hidden, and no puzzle to be known by heart: who never meets some learns not to guess them."""
        return self.random

    def draw(self, rng: Random) -> Task:
        if not self.random:
            return describe(rng.randint(self.low, self.high), self.low, self.high, self.max_turns)
        low = rng.randint(1, 10)
        high = rng.randint(low + 5, low + 50)
        return describe(rng.randint(low, high), low, high, ceil(sqrt(high - low)) + 1)

    def start(self, task: Task) -> GuessEpisode:
        return GuessEpisode(**task.data)

    def demonstrate(self, task: Task, seed: int, tools: Sequence[str]) -> Iterator[Move]:
        """Guess among what is left until it is found: by halving in at best log2 of the numbers, rounded up; by any
        number, of 50, in 6.2 guesses on average."""
        rng = Random(f"guess_the_number/demonstrate/{seed}/{task.id}")
        low, high, secret = task.data["low"], task.data["high"], task.data["secret"]
        while True:
            number = (low + high) // 2 if self.expert == "halving" else rng.randint(low, high)
            yield Move(thought=f"It is from {low} to {high}.", action=guess(number))
            if number == secret:
                return
            low, high = (number + 1, high) if number < secret else (low, number - 1)

    def random_tries(self, task: Task, num: int, seed: int) -> list[Action]:
        """The honest floor: distinct random numbers (fewer, if there are no more)."""
        rng = Random(f"guess_the_number/random/{seed}/{task.id}")
        numbers = range(task.data["low"], task.data["high"] + 1)
        return [guess(number) for number in rng.sample(numbers, min(num, len(numbers)))]


@lru_cache(maxsize=1024)
def describe(secret: int, low: int, high: int, max_turns: int) -> Task:
    return Task(
        id=f"{low}-{high}/{secret}",
        prompt=(Text(f"Guess the number that I think of. You have {max_turns} guesses."),),
        data={"secret": secret, "low": low, "high": high, "max_turns": max_turns},
    )


class GuessEpisode(Turns):
    def __init__(self, secret: int, low: int, high: int, max_turns: int) -> None:
        super().__init__(max_turns)
        self.secret, self.low, self.high = secret, low, high
        self.guesses: set[int] = set()

    def opening(self) -> Step:
        return go_on(f"It is a number from {self.low} to {self.high}.")

    def play(self, action: Action) -> Step | None:
        number = parse_number(action.text)
        if action.kind != "act" or number is None:
            return None
        self.last = number
        if not self.low <= number <= self.high:
            return go_on(f"{number} is not from {self.low} to {self.high}")
        if number == self.secret:
            return win("correct")
        if number in self.guesses:
            return go_on(f"you guessed {number} before")
        self.guesses.add(number)
        return go_on(f"{'higher' if number < self.secret else 'lower'} than {number}")

    def at_limit(self, step: Step) -> float:
        """1 less the last guess's distance, as a share of the range."""
        last = self.last
        return 1 - abs(last - self.secret) / (self.high - self.low) if self.low <= last <= self.high else 0.0


def guess(number: int) -> Action:
    return Action(kind="act", name="guess", text=str(number))
