"""Guess a number: every guess is met with `higher` or `lower`.

It is a number from 1 to 50.  ->  25  ->  lower  ->  12  ->  correct
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import ClassVar

from rlx.limits import MANY, refuse, within
from rlx.types import Action, Move, Step, Task, Text, Verb

LARGEST = 10**9
ONE_IN = 4
"""One number in this many is held out for the test split."""


@dataclass(frozen=True, kw_only=True)
class GuessTheNumber:
    """The reward is 1 for the number, and nothing until then."""

    actions: ClassVar = (Verb(name="guess", description="guess", argument="number"),)

    low: int = 1
    """Smallest number."""
    high: int = 50
    """Largest number."""
    max_rounds: int = 9
    """Guesses before the last one."""

    def __post_init__(self) -> None:
        within(-LARGEST, LARGEST, low=self.low, high=self.high)
        if self.high - self.low < 1:
            refuse("high", self.high, f"a number above low={self.low}")
        within(0, MANY, max_rounds=self.max_rounds)

    def tasks(self, split: str, seed: int) -> Iterator[Task]:
        """Endless `train` numbers for a seed, or every `test` number once, in an order that no seed changes."""
        if split == "train":
            rng = random.Random(f"guess_the_number/train/{seed}")
            return map(self.describe, iter(lambda: self.draw(rng), None))
        if split == "test":
            held = [number for number in range(self.low, self.high + 1) if self.is_held_out(number)]
            return map(self.describe, random.Random("guess_the_number/test").sample(held, len(held)))
        raise ValueError(f"split={split}: expected train or test")

    def draw(self, rng: random.Random) -> int:
        """A number for training."""
        while self.is_held_out(number := rng.randint(self.low, self.high)):
            pass
        return number

    def is_held_out(self, number: int) -> bool:
        """Whether it belongs to the test split; the smallest number never does, and its neighbour always."""
        at = number - self.low
        return at == 1 or (at > 1 and sha256(f"guess/{number}".encode()).digest()[0] % ONE_IN == 0)

    def describe(self, secret: int) -> Task:
        prompt = "Guess the number that I think of."
        return Task(id=f"{self.low}-{self.high}/{secret}", prompt=(Text(prompt),), data={"secret": secret})

    def start(self, task: Task) -> GuessEpisode:
        return GuessEpisode(self, task.data["secret"])

    def demonstrate(self, task: Task, seed: int, tools: Sequence[str]) -> Iterator[Move]:
        """Halve what is left until it is found: at best log2 of the numbers, rounded up."""
        low, high = self.low, self.high
        while True:
            number = (low + high) // 2
            yield Move(thought=f"It is from {low} to {high}.", action=guess(number))
            if number == task.data["secret"]:
                return
            low, high = (number + 1, high) if number < task.data["secret"] else (low, number - 1)

    def random_tries(self, task: Task, num: int, seed: int) -> list[Action]:
        """The honest floor: distinct random numbers (fewer, if there are no more)."""
        rng = random.Random(f"guess_the_number/random/{seed}/{task.id}")
        numbers = range(self.low, self.high + 1)
        return [guess(number) for number in rng.sample(numbers, min(num, len(numbers)))]


class GuessEpisode:
    """Acts of one kind, until one is right."""

    def __init__(self, env: GuessTheNumber, secret: int) -> None:
        self.env, self.secret, self.num_guesses = env, secret, 0

    def opening(self) -> Step:
        return Step(observation=(Text(f"It is a number from {self.env.low} to {self.env.high}."),))

    def step(self, action: Action) -> Step:
        if action.kind == "invalid":
            return told(f"Error: {action.text}")
        number = read(action.text)
        if action.kind != "act" or number is None or not self.env.low <= number <= self.env.high:
            return told(f"Error: guess a number from {self.env.low} to {self.env.high}")
        self.num_guesses += 1
        if number == self.secret:
            return Step(reward=1.0, done=True, success=True, metrics={"guesses": self.num_guesses})
        return told("higher" if number < self.secret else "lower")


def guess(number: int) -> Action:
    return Action(kind="act", name="guess", text=str(number))


def told(text: str) -> Step:
    return Step(observation=(Text(text),))


def read(text: str) -> int | None:
    """A whole number; None for anything else, whatever a host's own parser would take."""
    text = text.strip()
    digits = text.removeprefix("-")
    return int(text) if digits.isascii() and digits.isdigit() and len(digits) <= 10 else None
