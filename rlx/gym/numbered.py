"""A stream's tasks by their numbers: the next or the last again costs one, what came before begins the stream anew."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

from rlx.types import Environment, Task


class Numbered:
    def __init__(self, env: Environment, split: str, seed: int) -> None:
        self.env, self.split, self.seed = env, split, seed
        self.begin()

    def begin(self) -> None:
        self.stream: Iterator[Task] = self.env.tasks(self.split, self.seed)
        self.num_taken = 0
        self.last: Task | None = None

    def at(self, index: int) -> Task | None:
        """From 0; None where there are fewer."""
        if index < self.num_taken - 1:
            self.begin()
        if index >= self.num_taken:
            self.last = next(islice(self.stream, index - self.num_taken, None), None)
            self.num_taken = index + 1
        return self.last
