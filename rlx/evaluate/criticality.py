"""Criticality of turns: how much the choice in a state changes the reward (section 3.2 of CARL, arXiv:2512.04949).

    spread(s)      = standard deviation of R over turns a ~ pi(. | s), each followed by greedy turns to the end
    uncertainty(s) = mean over the same a of -1/T sum over t of log pi(a_t)

The states are those of one episode of each task. A spread of 0 means that no choice there matters to the policy as it
is. Figures and intervals: states are weighted alike, and tasks are resampled, as the states of a task are alike.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import sqrt
from statistics import fmean, pstdev

import numpy as np
from numpy.typing import NDArray

from rlx.algo.parts import Player
from rlx.algo.samplers import leave
from rlx.algo.tree import surprise
from rlx.evaluate.intervals import LEVELS, Estimate
from rlx.limits import within
from rlx.types import Sampling, Start, Task, Trajectory

Floats = NDArray[np.float64]
FLAT, CRITICAL = 0.01, 0.4
"""Spreads below which a state is flat, and from which on it is critical: the paper's."""
TOP = 0.1
"""Share of the states with the largest spread."""


@dataclass(frozen=True, kw_only=True)
class Inspection:
    """Size of a measurement."""

    tasks: int = 60
    """Held-out tasks, an episode each."""
    draws: int = 8
    """Turns that are sampled in each state."""
    num_resamples: int = 1000
    seed: int = 0

    def __post_init__(self) -> None:
        within(1, 100_000, tasks=self.tasks)
        within(2, 1000, draws=self.draws)


@dataclass(frozen=True, kw_only=True)
class State:
    """A state that was measured."""

    task: str
    turn: int
    action: str
    """Kind or name of the action that its episode took there."""
    uncertainty: float
    spread: float
    mean: float
    """Mean reward over the draws."""


def measure_states(player: Player, tasks: Sequence[Task], sampling: Sampling, num_draws: int) -> list[State]:
    """Play an episode of each task, and in each of its states `num_draws` turns that greedy turns follow."""
    parents = [one for one in player.play([Start(task=task, sample=0) for task in tasks]) if one.status != "error"]
    asked = [(one, turn) for one in parents for turn in range(len(one.turns))]
    starts = [start for one, turn in asked for start in draws_of(one, turn, sampling, num_draws)]
    ended = player.play(starts)
    found = (ended[place * num_draws : (place + 1) * num_draws] for place in range(len(asked)))
    states = (state_of(one, turn, draws) for (one, turn), draws in zip(asked, found, strict=True))
    return [state for state in states if state is not None]


def draws_of(parent: Trajectory, turn: int, sampling: Sampling, num: int) -> list[Start]:
    """Return starts that sample a turn of an episode again, and go on greedily."""
    greedy = replace(sampling, temperature=0.0, top_k=0, top_p=1.0)
    numbers = range(1 + turn * num, 1 + (turn + 1) * num)
    return [replace(leave(parent, sample=i, turn=turn), sampling=greedy, first=sampling) for i in numbers]


def state_of(parent: Trajectory, turn: int, draws: Sequence[Trajectory]) -> State | None:
    """Return the measures of a state; None if fewer than two of its draws ended without an error."""
    whole = [one for one in draws if one.status != "error" and len(one.turns) > turn]
    if len(whole) < 2:
        return None
    rewards, action = [one.reward for one in whole], parent.turns[turn].action
    return State(
        task=parent.task.key,
        turn=turn,
        action=action.name or action.kind,
        uncertainty=fmean(surprise(one.turns[turn].completion) for one in whole),
        spread=pstdev(rewards),
        mean=fmean(rewards),
    )


def share_flat(states: Sequence[State]) -> float:
    return fmean(state.spread < FLAT for state in states)


def share_critical(states: Sequence[State]) -> float:
    return fmean(state.spread >= CRITICAL for state in states)


def rank_correlation(states: Sequence[State]) -> float:
    """Return Spearman's correlation of uncertainty and spread; 0 where one of both is the same everywhere."""
    one, other = (ranks([getattr(state, name) for state in states]) for name in ("uncertainty", "spread"))
    one, other = one - one.mean(), other - other.mean()
    scale = sqrt(float(one @ one) * float(other @ other))
    return float(one @ other) / scale if scale else 0.0


def ranks(values: Sequence[float]) -> Floats:
    """Return the ranks, equal values sharing the mean of theirs."""
    _, inverse, counts = np.unique(values, return_inverse=True, return_counts=True)
    last = np.cumsum(counts)
    middle = last - (counts - 1) / 2
    return np.asarray(middle[inverse], dtype=np.float64)


def split_by_spread(states: Sequence[State]) -> tuple[list[State], list[State]]:
    """Return the tenth of the states with the largest spread, and the rest; of equal ones the first go first."""
    ordered = sorted(states, key=lambda state: -state.spread)
    num = max(1, round(TOP * len(ordered)))
    return ordered[:num], ordered[num:]


def uncertainty_ratio(states: Sequence[State]) -> float:
    """Return the median uncertainty of the tenth with the largest spread over that of the rest."""
    top, rest = (float(np.median([one.uncertainty for one in part] or [0.0])) for part in split_by_spread(states))
    return top / rest if rest else 0.0


FIGURES: Mapping[str, Callable[[Sequence[State]], float]] = {
    "states": len,
    "flat": share_flat,
    "critical": share_critical,
    "spread": lambda states: fmean(state.spread for state in states),
    "uncertainty": lambda states: fmean(state.uncertainty for state in states),
    "uncertainty_ratio": uncertainty_ratio,
    "rank_correlation": rank_correlation,
}
"""Figures by name."""


def state_figures(states: Sequence[State], inspection: Inspection) -> dict[str, Estimate]:
    """Return each figure with its interval: quantiles over resampled tasks."""
    of_task: dict[str, list[State]] = defaultdict(list)
    for state in states:
        of_task[state.task].append(state)
    groups, rng = list(of_task.values()), np.random.default_rng(inspection.seed)
    drawn = rng.integers(len(groups), size=(inspection.num_resamples, len(groups)))
    samples = [[state for place in places for state in groups[place]] for places in drawn]
    return {name: estimate_of(figure, states, samples) for name, figure in FIGURES.items()}


def estimate_of(
    figure: Callable[[Sequence[State]], float], states: Sequence[State], samples: Sequence[Sequence[State]]
) -> Estimate:
    """Return a figure and its quantiles over the samples, which hold the figure itself."""
    value = float(figure(states))
    low, high = np.quantile([figure(sample) for sample in samples], LEVELS)
    return Estimate(value=value, low=min(value, float(low)), high=max(value, float(high)))
