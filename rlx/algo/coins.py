"""A sampler whose episodes fork by a coin after the result of each of their turns (ARPO and AEPO).

round 1   every episode that has a second turn flips a coin: heads, and a fork goes on from the first turn's result
round 2   every one that has a third turn, forks of round 1 among them, ...   until there are enough episodes
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Literal

from rlx.algo.forks import first_sampled, usable
from rlx.algo.parts import Growth, Sampler, SamplerContext
from rlx.algo.samplers import leave
from rlx.base.limits import MANY, refuse, within
from rlx.types import Completion, Group, Start, Trajectory

NUM_TOKENS = 20
"""Tokens of a turn whose uncertainty counts."""
NUM_LIKELIEST = 10
"""Ids whose entropy is a token's uncertainty."""
Uncertainty = Literal["top10", "surprise"]
"""Uncertainty of a token: the entropy of the ten likeliest ids, -sum p log p, or -log p of the sampled one."""
Chance = Callable[[float, int], float]
"""Function from the gain in uncertainty, and the rounds in a row in which an episode has forked, to a probability."""
Budget = Callable[[Sequence[float]], int]
"""Function from the uncertainties of a first episode's turns to the number of fresh episodes."""


@dataclass(frozen=True, slots=True)
class Source:
    """An episode that may fork after a turn."""

    episode: Trajectory
    turn: int
    streak: int = 0
    """Rounds in a row in which it has forked."""

    @property
    def goes_on(self) -> bool:
        """Flag of episodes that have another turn."""
        return self.turn + 1 < len(self.episode.turns)

    def pass_turn(self, forked: bool) -> Source:
        """Return the same episode one turn later."""
        return replace(self, turn=self.turn + 1, streak=self.streak + 1 if forked else 0)


def by_coin(
    num_samples: int,
    num_fresh: int,
    chance: Chance,
    num_ids: int,
    uncertainty: Uncertainty,
    budget: Budget | None = None,
) -> Sampler:
    """Fork episodes by chance until there are `num_samples`; where none goes on, a fresh one begins. With a `budget`,
    the first episode says how many are fresh, and `num_fresh` is what a plan counts with."""
    within(1, MANY, num_fresh=num_fresh)
    within(2, MANY, num_ids=num_ids)
    if num_samples < num_fresh:
        refuse("num_samples", num_samples, f"an integer from num_fresh={num_fresh}")

    wanted = NUM_LIKELIEST if uncertainty == "top10" else 0
    measure = partial(uncertainties, num_ids=num_ids, uncertainty=uncertainty)

    def grow(context: SamplerContext) -> Growth:
        def fresh(first: int, end: int) -> list[Start]:
            return [Start(task=context.task, sample=sample, entropy_of=wanted) for sample in range(first, end)]

        played: list[Trajectory] = list((yield fresh(0, num_fresh if budget is None else 1)))
        if budget is not None:
            more = fresh(1, min(num_samples, budget(measure(played[0]))))
            played += (yield more) if more else []
        live = [Source(episode, 0) for episode in usable(played)]
        while len(played) < num_samples:
            flips = [context.rng.random() < chance(gain(source, measure), source.streak) for source in live]
            room = num_samples - len(played)
            forked = [source for source, is_heads in zip(live, flips) if is_heads and source.goes_on][:room]
            starts = [
                replace(leave(source.episode, sample=len(played) + i, turn=source.turn + 1), entropy_of=wanted)
                for i, source in enumerate(forked)
            ]
            live = [source.pass_turn(source in forked) for source in live if source.goes_on]
            if starts or not live:
                more = yield starts or fresh(len(played), len(played) + 1)
                played += more
                live += [Source(episode, first_sampled(episode)) for episode in usable(more)]
        return Group(task=context.task, trajectories=tuple(played))

    def turns_of_forks(turns: int) -> float:
        return even_turns(num_fresh, num_samples - num_fresh, turns)

    return Sampler(
        num_episodes=num_fresh,
        num_forks=num_samples - num_fresh,
        forks_always=True,
        fork_turns=turns_of_forks,
        grow=grow,
        watches=wanted > 0,
    )


def uncertainties(episode: Trajectory, num_ids: int, uncertainty: Uncertainty) -> list[float]:
    """H of each turn that the episode sampled: the sum of its first tokens' uncertainty, over log(num_ids)."""
    turns = [turn.completion for turn in episode.turns[first_sampled(episode) :]]
    return [sum(of_tokens(done, uncertainty)) / math.log(num_ids) for done in turns]


def of_tokens(done: Completion, uncertainty: Uncertainty) -> list[float]:
    """Return the uncertainty of the first tokens of a turn."""
    if uncertainty == "surprise":
        return [-logp for logp in done.logprobs[:NUM_TOKENS]]
    return [watched[-1] for watched in done.watched[:NUM_TOKENS]]


def gain(source: Source, measure: Callable[[Trajectory], Sequence[float]]) -> float:
    """Return the uncertainty of a turn less that of the first turn that its episode sampled."""
    uncertainties_of_turns = measure(source.episode)
    return uncertainties_of_turns[source.turn - first_sampled(source.episode)] - uncertainties_of_turns[0]


def even_turns(num_live: float, num_forks: float, turns: int) -> float:
    """Return the turns that forks sample where every coin is even, and episodes have so many turns; an expectation."""
    total, passed = 0.0, 1
    while num_forks > 0 and passed < turns:
        forked = min(num_forks, num_live / 2)
        total += forked * (turns - passed)
        num_forks, num_live, passed = num_forks - forked, num_live + forked, passed + 1
    return total + num_forks * turns
