"""Places at which the trees of a task are forked, and a sampler that forks them round by round.

A place is a turn of an episode that is taken again, or a token in it. A fork before turn t + 1 goes on from the
observation after turn t, so "after this turn's result" and "the next turn again" are one place.

    round 0   fresh episodes -> all have ended -> choose places
    round 1   forks of these -> all have ended -> choose places in all episodes so far ...
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from random import Random

from rlx.algo.parts import Growth, Sampler, SamplerContext
from rlx.algo.samplers import leave
from rlx.limits import MANY, within
from rlx.types import Group, Start, Trajectory


@dataclass(frozen=True, slots=True)
class Place:
    """A place to fork: before a turn of an episode, or after some tokens of the turn."""

    parent: Trajectory
    turn: int
    token: int = 0


Choose = Callable[[Sequence[Trajectory], Random], Sequence[Place]]
"""Function that chooses the places of a round from the episodes so far."""
Finish = Callable[[Sequence[Trajectory], Random], Sequence[Trajectory]]
"""Function that says at last which episodes are left out, by `Trajectory.spare`."""


def keep_all(played: Sequence[Trajectory], rng: Random) -> Sequence[Trajectory]:
    return played


def in_rounds(
    num_fresh: int,
    num_rounds: int,
    num_forks: int,
    choose: Choose,
    *,
    fork_turns: Callable[[int], float] | None = None,
    finish: Finish = keep_all,
) -> Sampler:
    """`num_fresh` episodes, then `num_rounds` rounds of the forks that `choose` wants; `num_forks` is their sum."""
    within(0, MANY, num_rounds=num_rounds)

    def grow(context: SamplerContext) -> Growth:
        played: list[Trajectory] = list((yield [Start(task=context.task, sample=i) for i in range(num_fresh)]))
        for _ in range(num_rounds):
            places = choose(usable(played), context.rng)
            if places:
                played += yield starts_at(places, len(played))
        return Group(task=context.task, trajectories=tuple(finish(played, context.rng)))

    return Sampler(num_episodes=num_fresh, num_forks=num_forks, forks_always=True, fork_turns=fork_turns, grow=grow)


def usable(played: Sequence[Trajectory]) -> list[Trajectory]:
    """Return the episodes that may be forked: those that did not end in an error."""
    return [one for one in played if one.status != "error" and one.turns]


def starts_at(places: Sequence[Place], first: int) -> list[Start]:
    """Return a fork at each place, numbered from `first`."""
    return [
        leave(place.parent, sample=first + number, turn=place.turn, token=place.token)
        for number, place in enumerate(places)
    ]


def first_sampled(one: Trajectory) -> int:
    """Return the first turn that an episode sampled itself."""
    return one.fork.turn if one.fork else 0


def new_states(one: Trajectory) -> list[Place]:
    """Return the places before each turn whose state the episode reached first; a fresh one reached the root."""
    return [Place(one, turn) for turn in range(first_sampled(one) + (one.fork is not None), len(one.turns))]


def root_of(played: Sequence[Trajectory]) -> dict[int, int]:
    """Return the sample that each episode's tree began with."""
    parent = {one.sample: one.fork.parent for one in played if one.fork}

    def root(sample: int) -> int:
        return root(parent[sample]) if sample in parent else sample

    return {one.sample: root(one.sample) for one in played}


def by_tree(played: Sequence[Trajectory]) -> list[list[Trajectory]]:
    """Return the episodes of each tree, in the order of their samples."""
    trees: dict[int, list[Trajectory]] = {}
    for sample, root in root_of(played).items():
        trees.setdefault(root, []).extend(one for one in played if one.sample == sample)
    return list(trees.values())


def uniform_states(num: int) -> Choose:
    """Draw `num` places in each tree, uniformly and with replacement, from the states before its turns."""

    def choose(played: Sequence[Trajectory], rng: Random) -> list[Place]:
        return [
            rng.choice(states)
            for states in ([place for one in tree for place in new_states(one)] for tree in by_tree(played))
            for _ in range(num)
        ]

    return choose


def keep_some(num: int | None) -> Finish:
    """Keep `num` random episodes of each tree, and leave the others out; None keeps all."""
    within(1, MANY, num_leaves=num)

    def finish(played: Sequence[Trajectory], rng: Random) -> list[Trajectory]:
        spare: set[int] = set()
        for tree in by_tree(usable(played)) if num is not None else ():
            samples = [one.sample for one in tree]
            spare |= {*samples} - {*rng.sample(samples, min(num or 0, len(samples)))}
        return [replace(one, spare=True) if one.sample in spare else one for one in played]

    return finish
