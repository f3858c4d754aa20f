"""A sampler whose episodes fork by a coin after the result of each of their turns (ARPO and AEPO).

round 1   every episode that has a second turn flips a coin: heads, and a fork goes on from the first turn's result
round 2   every one that has a third turn, forks of round 1 among them, ...   until there are enough episodes
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from rlx.algo.forks import first_sampled, usable
from rlx.algo.parts import Growth, Sampler, SamplerContext
from rlx.algo.samplers import leave
from rlx.limits import MANY, refuse, within
from rlx.types import Group, Start, Trajectory

NUM_TOKENS = 20
"""Tokens of a turn whose surprise counts."""
Chance = Callable[[float, int], float]
"""Function from the gain in surprise, and the rounds in a row in which an episode has forked, to a probability."""
Budget = Callable[[Sequence[float]], int]
"""Function from the surprises of a first episode's turns to the number of fresh episodes."""


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

    def passed(self, forked: bool) -> Source:
        """Return the same episode one turn later."""
        return replace(self, turn=self.turn + 1, streak=self.streak + 1 if forked else 0)


def by_coin(num_samples: int, num_fresh: int, chance: Chance, num_ids: int, budget: Budget | None = None) -> Sampler:
    """Fork episodes by chance until there are `num_samples`; where none goes on, a fresh one begins. With a `budget`,
    the first episode says how many are fresh, and `num_fresh` is what a plan counts with."""
    within(1, MANY, num_fresh=num_fresh)
    within(2, MANY, num_ids=num_ids)
    if num_samples < num_fresh:
        refuse("num_samples", num_samples, f"an integer from num_fresh={num_fresh}")

    def grow(context: SamplerContext) -> Growth:
        def fresh(first: int, end: int) -> list[Start]:
            return [Start(task=context.task, sample=sample) for sample in range(first, end)]

        played: list[Trajectory] = list((yield fresh(0, num_fresh if budget is None else 1)))
        if budget is not None:
            more = fresh(1, min(num_samples, budget(surprises(played[0], num_ids))))
            played += (yield more) if more else []
        live = [Source(one, 0) for one in usable(played)]
        while len(played) < num_samples:
            flips = [context.rng.random() < chance(gain(source, num_ids), source.streak) for source in live]
            room = num_samples - len(played)
            forked = [source for source, is_heads in zip(live, flips) if is_heads and source.goes_on][:room]
            starts = [leave(one.episode, sample=len(played) + i, turn=one.turn + 1) for i, one in enumerate(forked)]
            live = [source.passed(source in forked) for source in live if source.goes_on]
            if starts or not live:
                more = yield starts or fresh(len(played), len(played) + 1)
                played += more
                live += [Source(one, first_sampled(one)) for one in usable(more)]
        return Group(task=context.task, trajectories=tuple(played))

    def turns_of_forks(turns: int) -> float:
        return even_turns(num_fresh, num_samples - num_fresh, turns)

    return Sampler(
        num_episodes=num_fresh,
        num_forks=num_samples - num_fresh,
        forks_always=True,
        fork_turns=turns_of_forks,
        grow=grow,
    )


def surprises(one: Trajectory, num_ids: int) -> list[float]:
    """H of each turn: the sum of -log p over the first tokens that the episode sampled of it, over log(num_ids)."""
    first = first_sampled(one)
    return [-sum(turn.completion.logprobs[:NUM_TOKENS]) / math.log(num_ids) for turn in one.turns[first:]]


def gain(source: Source, num_ids: int) -> float:
    """Return the surprise of a turn less that of the first turn that its episode sampled."""
    of = surprises(source.episode, num_ids)
    return of[source.turn - first_sampled(source.episode)] - of[0]


def even_turns(num_live: float, num_forks: float, turns: int) -> float:
    """Return the turns that forks sample where every coin is even, and episodes have so many turns; an expectation."""
    total, passed = 0.0, 1
    while num_forks > 0 and passed < turns:
        forked = min(num_forks, num_live / 2)
        total += forked * (turns - passed)
        num_forks, num_live, passed = num_forks - forked, num_live + forked, passed + 1
    return total + num_forks * turns
