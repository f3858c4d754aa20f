"""A game of two agents, for tests."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

from rlx.environment import Environment, Episode
from rlx.types import Action, Part, Step, Task, Text


@dataclass(frozen=True, kw_only=True)
class Duel(Environment):
    """Two players speak in turns; the one whose last word was longer earns 1, and the other loses it."""

    turns: int = 2
    """Turns of each player."""
    agents: ClassVar = ("red", "blue")
    pace: ClassVar = "inline"

    def tasks(self, split: str, seed: int) -> Iterator[Task]:
        numbers = range(4) if split == "test" else iter(int, 1)
        for number, _ in enumerate(numbers):
            yield Task(id=f"{split}-{number}", prompt=(Text("A duel of words."),), data={})

    def briefing(self, task: Task, agent: str) -> tuple[Part, ...]:
        return (Text(f"You are {agent}."),)

    def start(self, task: Task) -> DuelEpisode:
        return DuelEpisode(self)


class DuelEpisode(Episode):
    def __init__(self, duel: Duel) -> None:
        self.left, self.said, self.who = 2 * duel.turns, {"red": "", "blue": ""}, "red"

    def opening(self) -> Step:
        return Step(observation=(Text("Begin."),), next_agent="red")

    def step(self, action: Action) -> Step:
        me, other = self.who, "blue" if self.who == "red" else "red"
        self.said[me], self.left, self.who = action.text[:6], self.left - 1, other
        if self.left:
            return Step(observation=(Text(f"{me} said {len(action.text)}"),), next_agent=other, reward=0.01)
        gain = float(len(self.said[me]) - len(self.said[other]))
        return Step(reward=gain, rewards={other: -gain}, outcomes={other: gain < 0}, done=True, success=gain > 0)
