"""Choose the parts of a mixture whose tasks come next, by the recent success rate of each part.

After every step a part's episodes n and successes s are `decay` times what they were, and the step's own. So

    p = (s + 1) / (n + 2)                                  Laplace's rule: 1/2 where nothing is known or all forgotten
    share ~ weight * (floor + (1 - floor) * 4 p (1 - p))   all of its weight at 1/2, `floor` of it at 0 and at 1

p (1 - p) is the variance of a success, by which Rutherford et al. 2024 (arXiv:2408.15099, "learnability") choose levels
of a game, and Tzannetos et al. 2023 (arXiv:2304.12877) tasks of intermediate difficulty; here it weighs environments.
A step draws N tasks by systematic sampling. The shares lie end to end in [0, 1). Task j = 0 to N - 1 is of the part at
(u + j) / N, where u is one random number per seed and step. So a part of share q has N q tasks on average, and always
less than one more or less.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from random import Random

from rlx.environment import CurriculumState
from rlx.types import Group, Metrics

NOTHING = {"tasks": 0, "episodes": 0.0, "successes": 0.0}
"""State of a part before the first step."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Curriculum:
    """Pure functions of each part's state: number of tasks so far, and decayed counts of episodes and successes."""

    weights: Mapping[str, float]
    """Weight of each part."""
    floor: float
    decay: float

    def begin(self) -> CurriculumState:
        return {part: dict(NOTHING) for part in self.weights}

    def adapt(self, state: CurriculumState, groups: Sequence[Group]) -> CurriculumState:
        return {part: self.after(state[part], [g for g in groups if g.task.env == part]) for part in self.weights}

    def after(self, state: Mapping[str, float], groups: Sequence[Group]) -> dict[str, float]:
        """Return the state of a part after more groups of it. Forks and failed episodes do not count."""
        successes = [t.success for g in groups for t in g.trajectories if t.fork is None and t.status != "error"]
        return {
            "tasks": state["tasks"] + len(groups),
            "episodes": self.decay * state["episodes"] + len(successes),
            "successes": self.decay * state["successes"] + sum(successes),
        }

    def num_tasks(self, state: CurriculumState) -> dict[str, int]:
        return {part: state[part]["tasks"] for part in self.weights}

    def shares(self, state: CurriculumState) -> dict[str, float]:
        """Return each part's share of the next tasks."""
        weighed = {part: weight * self.worth(success(state[part])) for part, weight in self.weights.items()}
        total = sum(weighed.values())
        return {part: weight / total for part, weight in weighed.items()}

    def worth(self, p: float) -> float:
        return self.floor + (1 - self.floor) * 4 * p * (1 - p)

    def choose(self, state: CurriculumState, num: int, *key: object) -> list[str]:
        """Choose the part of each task of a step; `key` seeds the random number."""
        shares = self.shares(state)
        parts, ends = list(shares), list(accumulate(shares.values()))
        first = Random("/".join(map(str, ("curriculum", *key)))).random()
        last = len(ends) - 1
        return [parts[min(last, bisect_right(ends, (first + j) / num))] for j in range(num)]

    def tell(self, state: CurriculumState) -> Metrics:
        """Metrics of each part."""
        rates = {f"{part}/known/success": success(state[part]) for part in self.weights}
        return {**rates, **{f"{part}/known/share": share for part, share in self.shares(state).items()}}


def success(state: Mapping[str, float]) -> float:
    return (state["successes"] + 1) / (state["episodes"] + 2)
