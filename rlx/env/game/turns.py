"""Common parts of the games: counted turns, their limit, and the answer to a turn that cannot be read.

The rewards are GEM's (Liu et al. 2025, arXiv:2510.01051): 1 for the whole of a game, or in parts that add up to it; 0
for what the rules forbid; -0.1 for a turn that cannot be read, which ends the game.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from random import Random
from typing import ClassVar

from rlx.base.limits import MANY, within
from rlx.env.split import split_tasks
from rlx.environment import Environment, Episode
from rlx.types import Action, Part, Step, Task, Text

UNREADABLE = -0.1
"""The reward of a turn that cannot be read."""
LONGEST = 1000
"""Characters of a turn that can be, and one more."""


@dataclass(frozen=True, kw_only=True)
class Game(Environment):
    """A game, whose tasks are drawn at random; a hash holds some of them out for the test."""

    pace: ClassVar = "inline"
    discount: ClassVar = 0.9
    reward_range: ClassVar[tuple[float, float]] = (UNREADABLE, 1.0)
    stream: ClassVar[str]
    """Name that keys its random numbers."""

    max_turns: int
    """Turns of a game."""
    num_test: int = 500
    """Test tasks, at most."""

    def __post_init__(self) -> None:
        within(1, MANY, max_turns=self.max_turns, num_test=self.num_test)

    @property
    def apart(self) -> bool:
        """True if there are enough tasks to hold some out; else both splits have all of them."""
        return True

    @abstractmethod
    def draw(self, rng: Random) -> Task: ...

    def tasks(self, split: str, seed: int) -> Iterator[Task]:
        return split_tasks(self.stream, self.draw, split, seed, self.num_test, apart=self.apart)


class Turns(Episode):
    """An episode of a game that may take `max_turns` turns: a rule of the game, which its task tells the agent."""

    def __init__(self, max_turns: int) -> None:
        self.max_turns, self.num_turns = max_turns, 0

    @abstractmethod
    def play(self, action: Action) -> Step | None:
        """Return the answer to a turn; None if it cannot be read."""

    def at_limit(self, step: Step) -> float:
        """The reward of a last turn that did not end the game."""
        return step.reward

    def step(self, action: Action) -> Step:
        self.num_turns += 1
        step = None if action.kind == "invalid" else self.play(action)
        if step is None:
            why = action.text if action.kind == "invalid" else f"not a move: {action.text}"
            return lose(f"Error: {why:.200}", UNREADABLE)
        if step.done or self.num_turns < self.max_turns:
            return step
        return cut_off(step.observation, self.at_limit(step))


@lru_cache(maxsize=1024)
def go_on(text: str, reward: float = 0.0) -> Step:
    """Return an answer after which the game goes on. Few answers recur often, so each is made once."""
    return Step(observation=(Text(text),), reward=reward)


@lru_cache(maxsize=1024)
def cut_off(observation: tuple[Part, ...], reward: float) -> Step:
    """The game would go on, but for its last turn."""
    return Step(observation=observation, reward=reward, done=True, truncated=True, success=False)


@lru_cache(maxsize=1024)
def win(text: str, reward: float = 1.0) -> Step:
    return Step(observation=(Text(text),), reward=reward, done=True, success=True)


@lru_cache(maxsize=1024)
def lose(text: str, reward: float = 0.0) -> Step:
    return Step(observation=(Text(text),), reward=reward, done=True, success=False)


def parse_number(text: str) -> int | None:
    """A number of at most nine digits; None for anything else, whatever a host's own parser would take."""
    numbers = read_numbers(text) if len(text) < LONGEST else None
    return numbers[0] if numbers is not None and len(numbers) == 1 else None


def parse_numbers(text: str) -> tuple[int, ...] | None:
    """Read whole numbers with blanks between them; None if there is none, or anything else."""
    return read_numbers(text) if len(text) < LONGEST else None


@lru_cache(maxsize=4096)
def read_numbers(text: str) -> tuple[int, ...] | None:
    words = text.split()
    if not (text.isascii() and "".join(words).isdigit()) or max(map(len, words)) > 9:
        return None
    return tuple(map(int, words))
