"""Several environments in one run: their tasks in one stream, each with its own actions, protocol and limit of turns.

parts     countdown: {env, protocol: tags, weight: 1}    guess: {env, protocol: direct, weight: 2}
tasks     guess  countdown  guess  guess  countdown  guess ...       (Task.env says which part a task is of)
metrics   success/mean of all, countdown/success/mean and guess/success/mean of each
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from heapq import heapify, heappop, heapreplace
from typing import ClassVar

from rlx.base.limits import LARGEST, above, refuse, within
from rlx.env.mixed.curriculum import Curriculum
from rlx.environment import Environment, Episode
from rlx.environment.dialect import Dialect
from rlx.types import Task

NOUNS = (
    "eval",
    "start",
    "untrained",
    "gain",
    "gain_untrained",
    "random",
    "tool",
    "episode",
    "env",
    "overall",
    "time",
    "rate",
    "memory",
)
"""First words of the names of figures and of metrics that depend on the clock: no part has such a name."""


@dataclass(frozen=True, kw_only=True)
class Portion:
    """A part: an environment, its weight and its protocol."""

    env: Environment
    """Environment of the part."""
    weight: float = 1.0
    """Share of training tasks, relative to the other parts; 0: evaluate this part and never train on it."""
    protocol: Dialect | None = None
    """Protocol of this part; null: the run's protocol."""
    tested: bool = True
    """Evaluate this part too; false: train on it alone."""

    def __post_init__(self) -> None:
        within(0.0, LARGEST, weight=self.weight)


@dataclass(frozen=True, kw_only=True)
class Mixture(Environment):
    """Every task is of one part, and whatever is asked about it is asked of that part (rlx.environment.world)."""

    parts: Mapping[str, Portion]
    """Parts of the mixture, each with its weight and its protocol."""
    even_test: bool = False
    """Take as many test tasks of one part as of another, until the smaller part has no more, whatever their weights."""
    curriculum_floor: float | None = None
    """Curriculum: share of its weight that a part keeps when it is never or always solved, such as 0.1; null: fixed
    weights."""
    curriculum_decay: float = 0.9
    """Decay per step of each part's success counts."""

    # where an expert plays, nothing is chosen
    reward_only_keys: ClassVar = ("even_test", "curriculum_floor", "curriculum_decay")

    def __post_init__(self) -> None:
        if not self.parts:
            refuse("parts", "{}", "at least one environment, by a name")
        for name, portion in self.parts.items():
            if not re.fullmatch(r"[a-z][a-z0-9_]*", name) or name in NOUNS:
                refuse("parts", name, f"names of lower-case letters, digits and _, and none of {', '.join(NOUNS)}")
            if portion.env.components:
                refuse("parts", name, "environments that are not mixtures themselves")
        if not any(portion.weight for portion in self.parts.values()):
            raise ValueError("parts: every weight is 0: expected one above 0, of a part to train on")
        if not any(portion.tested for portion in self.parts.values()):
            raise ValueError("parts: every tested is false: expected a part to evaluate")
        above(0, 1, curriculum_floor=self.curriculum_floor)
        within(0.0, 1.0, curriculum_decay=self.curriculum_decay)

    @property
    def components(self) -> Mapping[str, Portion]:
        return self.parts

    @property
    def curriculum(self) -> Curriculum | None:
        """Curriculum that chooses the parts of a run's tasks by success; None without one."""
        if self.curriculum_floor is None:
            return None
        weights = {name: portion.weight for name, portion in self.parts.items() if portion.weight}
        return Curriculum(weights=weights, floor=self.curriculum_floor, decay=self.curriculum_decay)

    @property
    def is_remote(self) -> bool:
        """Tasks of some part come from a file or a hub."""
        return any(portion.env.is_remote for portion in self.parts.values())

    def tasks(self, split: str, seed: int) -> Iterator[Task]:
        """The parts' own tasks in the order of their weights, until all of them have ended; in the test, one that is
        never trained on is as any other of weight 1."""
        is_test, even = split == "test", split == "test" and self.even_test
        parts = {name: part for name, part in self.parts.items() if part.tested or not is_test}
        weights = {name: 1.0 if even else part.weight or float(is_test) for name, part in parts.items()}
        streams = {name: self.parts[name].env.tasks(split, seed) for name, weight in weights.items() if weight}
        turns = [(1 / weights[name], place, name, 1) for place, name in enumerate(streams)]
        heapify(turns)
        while turns:
            _, place, name, num = turns[0]
            task = next(streams[name], None)
            if task is None:
                heappop(turns)
            else:
                heapreplace(turns, ((num + 1) / weights[name], place, name, num + 1))
                yield replace(task, env=name)

    def start(self, task: Task) -> Episode:
        return self.parts[task.env].env.start(replace(task, env=""))
