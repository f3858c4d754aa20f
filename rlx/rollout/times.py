"""Measure the seconds that an episode spends in the queue, in the engine and in its environment."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from time import monotonic
from typing import Literal

from rlx.runs.times import EpisodeTimes, TurnTimes
from rlx.types import Start

Clock = Callable[[], float]


@dataclass(slots=True)
class Stopwatch:
    """Measure one episode: `go_on` when what it waits for is there, `wait_for` when it waits again."""

    clock: Clock = monotonic
    waiting: Literal["queue", "generate", "environment"] = "queue"
    queue: float = 0.0
    opening: float = 0.0
    turns: list[list[float]] = field(default_factory=list)
    mark: float = field(init=False)

    def __post_init__(self) -> None:
        self.mark = self.clock()

    def begin(self) -> None:
        """End the time in the queue."""
        self.queue += self.lap()
        self.waiting = "environment"

    def go_on(self) -> None:
        """Count the time since the last mark for what the episode waited for."""
        self.spend(self.lap())

    def wait_for(self, activity: Literal["generate", "environment"]) -> None:
        """Count the time since the last mark for the environment, whose work was done at once, and wait again."""
        self.waiting = "environment"
        self.spend(self.lap())
        self.waiting = activity
        if activity == "generate":
            self.turns.append([0.0, 0.0])

    def spend(self, seconds: float) -> None:
        if self.turns:
            self.turns[-1][self.waiting == "environment"] += seconds
        else:
            self.opening += seconds

    def lap(self) -> float:
        """Return the seconds since the last mark, and set the mark."""
        before, self.mark = self.mark, self.clock()
        return self.mark - before

    def result(self, start: Start) -> EpisodeTimes:
        """Return the times of an episode that has ended."""
        return EpisodeTimes(
            task=start.task.key,
            sample=start.sample,
            repeat=start.repeat,
            queue=self.queue,
            opening=self.opening,
            turns=tuple(TurnTimes(*seconds) for seconds in self.turns),
        )
