"""Several environments in one run: their tasks in one stream, each with its own actions, protocol and limit of turns.

parts     countdown: {env, protocol: tags, weight: 1}    guess: {env, protocol: direct, weight: 2}
tasks     guess  countdown  guess  guess  countdown  guess ...       (Task.env says which part a task is of)
metrics   success/mean of all, countdown/success/mean and guess/success/mean of each
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from rlx.limits import LARGEST, above, refuse
from rlx.types import Dialect, Environment, Episode, Task

NOUNS = ("eval", "start", "gain", "random", "tool", "episode", "env", "time", "rate", "memory")
"""What figures and what depends on the clock begin with: no part is named so."""


@dataclass(frozen=True, kw_only=True)
class Portion:
    """A part: an environment, and how it is taken part of."""

    env: Environment
    weight: float = 1.0
    """Tasks of it, in relation to the other parts' weights."""
    protocol: Dialect | None = None
    """How one speaks in it; null: as the run says."""

    def __post_init__(self) -> None:
        above(0, LARGEST, weight=self.weight)


@dataclass(frozen=True, kw_only=True)
class Mixture:
    """Every task is of one part, and whatever is asked about it is asked of that part (rlx.world)."""

    parts: Mapping[str, Portion]

    def __post_init__(self) -> None:
        if not self.parts:
            refuse("parts", "{}", "at least one environment, by a name")
        for name, portion in self.parts.items():
            if not re.fullmatch(r"[a-z][a-z0-9_]*", name) or name in NOUNS:
                refuse("parts", name, f"names of lower-case letters, digits and _, and none of {', '.join(NOUNS)}")
            if getattr(portion.env, "parts", None):
                refuse("parts", name, "environments that are not mixtures themselves")

    @property
    def fetches(self) -> bool:
        """Tasks of some part come from a file or a hub."""
        return any(getattr(portion.env, "fetches", False) for portion in self.parts.values())

    def tasks(self, split: str, seed: int) -> Iterator[Task]:
        """The parts' own tasks in the order of their weights, until all of them have ended."""
        streams = {name: portion.env.tasks(split, seed) for name, portion in self.parts.items()}
        taken = dict.fromkeys(streams, 0)
        while streams:
            name = min(streams, key=lambda name: (taken[name] + 1) / self.parts[name].weight)
            taken[name] += 1
            task = next(streams[name], None)
            if task is None:
                del streams[name]
            else:
                yield replace(task, env=name)

    def start(self, task: Task) -> Episode:
        return self.parts[task.env].env.start(replace(task, env=""))
