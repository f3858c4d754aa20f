"""Places at which the trees of a task are forked, and a sampler that forks them round by round.

A place is a turn of an episode that is taken again, or a token in it. A fork before turn t + 1 goes on from the
observation after turn t, so "after this turn's result" and "the next turn again" are one place.

    round 0   fresh episodes -> all have ended -> choose places
    round 1   forks of these -> all have ended -> choose places in all episodes so far ...
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Container, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import cycle
from random import Random

from rlx.algo.parts import Growth, Sampler, SamplerContext
from rlx.algo.samplers import leave
from rlx.algo.states import Text, by_path, text_before
from rlx.algo.tree import surprise
from rlx.base.limits import MANY, within
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
    always: bool = True,
) -> Sampler:
    """`num_fresh` episodes, then `num_rounds` rounds of the forks that `choose` wants: `num_forks` in all, or up to so
    many if not `always`."""
    within(0, MANY, num_rounds=num_rounds)

    def grow(context: SamplerContext) -> Growth:
        played: list[Trajectory] = list((yield [Start(task=context.task, sample=i) for i in range(num_fresh)]))
        for _ in range(num_rounds):
            places = choose(usable(played), context.rng)
            if places:
                played += yield starts_at(places, len(played))
        return Group(task=context.task, trajectories=tuple(finish(played, context.rng)))

    return Sampler(num_episodes=num_fresh, num_forks=num_forks, forks_always=always, fork_turns=fork_turns, grow=grow)


def usable(played: Sequence[Trajectory]) -> list[Trajectory]:
    """Return the episodes that may be forked: those that did not end in an error."""
    return [episode for episode in played if episode.status != "error" and episode.turns]


def starts_at(places: Sequence[Place], first: int) -> list[Start]:
    """Return a fork at each place, numbered from `first`."""
    return [
        leave(place.parent, sample=first + number, turn=place.turn, token=place.token)
        for number, place in enumerate(places)
    ]


def first_sampled(episode: Trajectory) -> int:
    """Return the first turn that an episode sampled itself."""
    return episode.fork.turn if episode.fork else 0


def new_states(episode: Trajectory) -> list[Place]:
    """Return the places before each turn whose state the episode reached first; a fresh one reached the root."""
    return [
        Place(episode, turn) for turn in range(first_sampled(episode) + (episode.fork is not None), len(episode.turns))
    ]


def root_of(played: Sequence[Trajectory]) -> dict[int, int]:
    """Return the sample that each episode's tree began with."""
    parent = {episode.sample: episode.fork.parent for episode in played if episode.fork}

    def root(sample: int) -> int:
        return root(parent[sample]) if sample in parent else sample

    return {episode.sample: root(episode.sample) for episode in played}


def by_tree(played: Sequence[Trajectory]) -> list[list[Trajectory]]:
    """Return the episodes of each tree, in the order of their samples."""
    trees: dict[int, list[Trajectory]] = {}
    for episode, root in zip(played, root_of(played).values(), strict=True):
        trees.setdefault(root, []).append(episode)
    return list(trees.values())


def uniform_states(num: int) -> Choose:
    """Draw `num` places in each tree, uniformly and with replacement, from the states before its turns."""

    def choose(played: Sequence[Trajectory], rng: Random) -> list[Place]:
        return [
            rng.choice(states)
            for states in ([place for episode in tree for place in new_states(episode)] for tree in by_tree(played))
            for _ in range(num)
        ]

    return choose


def surest_last(num: int, penalty: float) -> Choose:
    """Take the `num` turns with the largest surprise, less `penalty` for each sibling; again from the first if there
    are too few. An episode's last turn is not among them, and the root is, with a surprise of 0."""

    def choose(played: Sequence[Trajectory], rng: Random) -> list[Place]:
        by_sample = {episode.sample: episode for episode in played}
        turns = [(episode, turn) for episode in played for turn in range(first_sampled(episode), len(episode.turns))]
        num_there = Counter(by_path(by_sample, *place) for place in turns)
        inner = [(episode, turn) for episode, turn in turns if turn + 1 < len(episode.turns)]
        scored = [(0.0, Place(episode, 0)) for episode in played[:1]]
        for episode, turn in inner:
            siblings = num_there[by_path(by_sample, episode, turn)] - 1
            scored.append((surprise(episode.turns[turn].completion) - penalty * siblings, Place(episode, turn)))
        ranked = [place for _, place in sorted(scored, key=lambda pair: -pair[0])]
        return [place for place, _ in zip(cycle(ranked), range(num))]

    return choose


def least_likely_tokens(num: int, num_branches: int) -> Choose:
    """Take the `num` tokens of each tree with the largest -log p, each `num_branches` times. The first token that an
    episode sampled is not among them."""

    def choose(played: Sequence[Trajectory], rng: Random) -> list[Place]:
        places = []
        for tree in by_tree(played):
            tokens = [(logp, place) for episode in tree for logp, place in sampled_tokens(episode)]
            ranked = [place for _, place in sorted(tokens, key=lambda pair: pair[0])[:num]]
            places += [place for place in ranked for _ in range(num_branches)]
        return places

    return choose


def sampled_tokens(episode: Trajectory) -> Iterator[tuple[float, Place]]:
    """Yield the log-prob and the place of each token that an episode sampled, but for the first."""
    for turn in range(first_sampled(episode), len(episode.turns)):
        skip = (episode.fork.num_prefix if episode.fork else 0) + 1 if turn == first_sampled(episode) else 0
        for token, logp in list(enumerate(episode.turns[turn].completion.logprobs))[skip:]:
            yield logp, Place(episode, turn, token)


def every_state(num: int, max_states: int) -> Choose:
    """Take every different state before a turn of a fresh episode, up to `max_states` of it, each `num` times."""

    def choose(played: Sequence[Trajectory], rng: Random) -> list[Place]:
        places = [
            Place(episode, turn)
            for episode in played
            if not episode.fork
            for turn in range(min(max_states, len(episode.turns)))
        ]
        different: dict[Text, Place] = {}
        for place in places:
            different.setdefault(text_before(place.turn, place.parent.turns[place.turn]), place)
        return [place for place in different.values() for _ in range(num)]

    return choose


def keep_some(num: int | None) -> Finish:
    """Keep `num` random episodes of each tree, and leave the others out; None keeps all."""
    within(1, MANY, num_leaves=num)

    def finish(played: Sequence[Trajectory], rng: Random) -> list[Trajectory]:
        spare: set[int] = set()
        for tree in by_tree(usable(played)) if num is not None else ():
            samples = [episode.sample for episode in tree]
            spare |= {*samples} - {*rng.sample(samples, min(num or 0, len(samples)))}
        return leave_out(played, spare)

    return finish


def keep_a_success(num: int | None) -> Finish:
    """Keep `num` episodes of all trees: a random successful one if there is any, then random ones; None keeps all."""
    within(1, MANY, num_leaves=num)

    def finish(played: Sequence[Trajectory], rng: Random) -> list[Trajectory]:
        samples = [episode.sample for episode in usable(played)]
        rng.shuffle(samples)
        won = {episode.sample for episode in played if episode.success}
        first = next((sample for sample in samples if sample in won), None)
        ranked = sorted(samples, key=lambda sample: sample != first)
        return leave_out(played, set() if num is None else set(ranked[num:]))

    return finish


def leave_out(played: Sequence[Trajectory], spare: Container[int]) -> list[Trajectory]:
    """Mark these samples as left out."""
    return [replace(episode, spare=True) if episode.sample in spare else episode for episode in played]
