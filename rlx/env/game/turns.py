"""What the games have in common: turns that are counted, an end to them, and what comes of a turn that says nothing.

The rewards are GEM's (Liu et al. 2025, arXiv:2510.01051): 1 for the whole of a game, or in parts that add up to it; 0
for what the rules forbid; -0.1 for a turn that cannot be read, which ends the game.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import replace
from functools import lru_cache

from rlx.types import Action, Step, Text

UNREADABLE = -0.1
"""The reward of a turn that cannot be read."""


class Turns(ABC):
    """An episode of a game that may take `max_turns` turns: a rule of the game, which its task tells the agent."""

    def __init__(self, max_turns: int) -> None:
        self.max_turns, self.num_turns = max_turns, 0

    @abstractmethod
    def play(self, action: Action) -> Step | None:
        """What comes of a turn; None if it cannot be read."""

    def at_limit(self, step: Step) -> float:
        """The reward of a last turn that did not end the game."""
        return step.reward

    def step(self, action: Action) -> Step:
        self.num_turns += 1
        step = None if action.kind == "invalid" else self.play(action)
        if step is None:
            why = action.text if action.kind == "invalid" else f"not a move: {action.text}"
            return lost(f"Error: {why:.200}", UNREADABLE)
        if step.done or self.num_turns < self.max_turns:
            return step
        return replace(step, reward=self.at_limit(step), done=True, truncated=True, success=False)


@lru_cache(maxsize=1024)
def told(text: str, reward: float = 0.0) -> Step:
    """The game goes on."""
    return Step(observation=(Text(text),), reward=reward)


def won(text: str, reward: float = 1.0) -> Step:
    return Step(observation=(Text(text),), reward=reward, done=True, success=True)


def lost(text: str, reward: float = 0.0) -> Step:
    return Step(observation=(Text(text),), reward=reward, done=True, success=False)


def whole_number(text: str) -> int | None:
    """A number of at most nine digits; None for anything else, whatever a host's own parser would take."""
    text = text.strip()
    return int(text) if text.isascii() and text.isdigit() and len(text) < 10 else None


def whole_numbers(text: str) -> tuple[int, ...] | None:
    """Such numbers, blanks between them; None if there is none, or anything else."""
    return read_numbers(text) if len(text) < 1000 else None


@lru_cache(maxsize=4096)
def read_numbers(text: str) -> tuple[int, ...] | None:
    words = text.split()
    if not (text.isascii() and "".join(words).isdigit()) or max(map(len, words)) > 9:
        return None
    return tuple(map(int, words))
