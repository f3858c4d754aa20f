"""Criticality of turns: how much the choice in a state changes the reward (section 3.2 of CARL, arXiv:2512.04949).

    spread(s)      = standard deviation of R over `draws` turns a ~ pi(. | s), each followed by greedy turns to the end
    uncertainty(s) = mean over as many other turns a ~ pi(. | s) of -1/T sum over t of log pi(a_t)

So a state takes twice `draws` turns, and the greedy turns after half of them. The two sets are separate, because a rare
action among the draws of one set raises both measures of it: they would correlate in any task.

The states are those of one episode of each task, each turn of it. R is what the agent earns that acts in the state. A
spread of 0 means that no choice there matters to the policy as it is. Figures and intervals: states are weighted alike,
and tasks are resampled, as the states of a task are alike.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import sqrt
from statistics import fmean, pstdev

import numpy as np
from numpy.typing import NDArray

from rlx.algo.parts import Player
from rlx.algo.samplers import leave
from rlx.algo.tree import surprise
from rlx.base.limits import within
from rlx.environment.agents import episode_of_agent
from rlx.evaluation.intervals import LEVELS
from rlx.runs.summary import Estimate
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
    """Turns that are sampled in each state for its spread, and again for its uncertainty."""
    num_resamples: int = 1000
    seed: int = 0
    sets: int = field(default=2, init=False)
    """Sets of draws, so that states which were measured with one set are not taken for these."""

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
    """Play an episode of each task, and in each of its states `num_draws` turns that greedy turns follow, and as many
    that nothing follows."""
    episodes = player.play([Start(task=task, sample=0) for task in tasks])
    places = [(parent, turn) for parent in episodes if parent.status != "error" for turn in range(len(parent.turns))]
    followed = [start for parent, turn in places for start in draws_of(parent, turn, sampling, num_draws)]
    alone = [
        replace(start, sample=start.sample + len(parent.turns) * num_draws, max_turns=1)
        for parent, turn in places
        for start in draws_of(parent, turn, sampling, num_draws)
    ]
    ended = player.play([*followed, *alone])
    sets = [ended[first : first + num_draws] for first in range(0, len(ended), num_draws)]
    states = (
        state_of(*place, *draws) for place, *draws in zip(places, sets[: len(places)], sets[len(places) :], strict=True)
    )
    return [state for state in states if state is not None]


def draws_of(parent: Trajectory, turn: int, sampling: Sampling, num: int) -> list[Start]:
    """Return starts that sample a turn of an episode again, and go on greedily."""
    greedy = replace(sampling, temperature=0.0, top_k=0, top_p=1.0)
    numbers = range(1 + turn * num, 1 + (turn + 1) * num)
    return [replace(leave(parent, sample=i, turn=turn), sampling=greedy, first=sampling) for i in numbers]


def state_of(
    parent: Trajectory, turn: int, followed: Sequence[Trajectory], alone: Sequence[Trajectory]
) -> State | None:
    """Return the measures of a state; None if fewer than two draws of a set ended without an error."""
    sets = [
        [draw for draw in draws if draw.status != "error" and len(draw.turns) > turn] for draws in (followed, alone)
    ]
    if min(map(len, sets)) < 2:
        return None
    decided = parent.turns[turn]
    rewards = [earned(draw, decided.agent) for draw in sets[0]]
    return State(
        task=parent.task.key,
        turn=turn,
        action=decided.action.name or decided.action.kind,
        uncertainty=fmean(surprise(draw.turns[turn].completion) for draw in sets[1]),
        spread=pstdev(rewards),
        mean=fmean(rewards),
    )


def earned(episode: Trajectory, agent: str) -> float:
    """Return what an agent earned in an episode."""
    return episode.reward if not agent else episode_of_agent(agent, episode).reward


def share_flat(states: Sequence[State]) -> float:
    return fmean(state.spread < FLAT for state in states)


def share_critical(states: Sequence[State]) -> float:
    return fmean(state.spread >= CRITICAL for state in states)


def rank_correlation(states: Sequence[State]) -> float:
    """Return Spearman's correlation of uncertainty and spread; 0 where one of both is the same everywhere."""
    uncertainties, spreads = (ranks([getattr(state, name) for state in states]) for name in ("uncertainty", "spread"))
    uncertainties, spreads = uncertainties - uncertainties.mean(), spreads - spreads.mean()
    scale = sqrt(float(uncertainties @ uncertainties) * float(spreads @ spreads))
    return float(uncertainties @ spreads) / scale if scale else 0.0


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
    top, rest = (float(np.median([state.uncertainty for state in part] or [0.0])) for part in split_by_spread(states))
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
    states_by_task: dict[str, list[State]] = defaultdict(list)
    for state in states:
        states_by_task[state.task].append(state)
    groups, rng = list(states_by_task.values()), np.random.default_rng(inspection.seed)
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
