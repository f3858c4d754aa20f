"""Beginnings of a run's own training episodes, for the rows of new actions: prompts, and random paths through buttons.

Nothing is read of the test split, of an expert or of a reward.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from itertools import islice
from random import Random
from typing import Any

from rlx.environment.world import NOTHING_SEEN, open_episode
from rlx.model.ground import Ground
from rlx.model.load import encode_text
from rlx.protocol.automaton import Actions, Automaton
from rlx.protocol.drawn import drawn_by
from rlx.rollout.episode import World, worlds_of
from rlx.rollout.speech import speech_of
from rlx.run.run import Run
from rlx.types import Step, Task

NUM_GROUNDS = 128
MOST_CHOICES = 4
"""Actions of a path."""
MOST_TOKENS = 512
"""Last tokens of a prompt that are read."""


def grounds_of(run: Run, tokenizer: Any, descriptions: Mapping[str, tuple[int, ...]]) -> list[Ground]:
    """Return the beginnings of the first tasks of the training stream of the run's seed."""
    first = max(len(tokenizer), 1 + max(token_id for ids in descriptions.values() for token_id in ids))
    actions = Actions(first=first, names=tuple(descriptions), descriptions=tuple(descriptions.values()))
    drawn = drawn_by(run.dialects, actions, partial(encode_text, tokenizer))
    worlds = worlds_of(run.env, speech_of(run.protocol, tokenizer, chat=run.model.chat, drawn=drawn))
    rng = Random(f"{run.seed}/rows")
    tasks = islice(run.env.tasks("train", run.seed), NUM_GROUNDS)
    grounds = (begin(worlds[task.env], task, drawn.automaton, rng) for task in tasks)
    return [ground for ground in grounds if ground is not None]


def begin(world: World, task: Task, automaton: Automaton | None, rng: Random) -> Ground | None:
    """Return the beginning of a task's episode; None under a protocol without added actions."""
    if world.speech.state is None or automaton is None:
        return None
    step = open_step(world, task)
    prompt = world.speech.context(task, step.observation, (), legal=step.legal)
    state = world.speech.begins(step.legal)
    routes, path, choices = walk(automaton, state or 0, rng)
    return Ground(prompt=prompt[-MOST_TOKENS:], routes=routes, path=path, choices=choices)


def open_step(world: World, task: Task) -> Step:
    """Return an episode's opening, or an empty step if the start fails: the player reports the failure."""
    try:
        with open_episode(world.env, task) as episode:
            return episode.opening()
    except Exception:
        return NOTHING_SEEN


def walk(
    automaton: Automaton, number: int, rng: Random
) -> tuple[frozenset[str], tuple[int, ...], tuple[frozenset[str], ...]]:
    """Return the routes that lead out of a state of text, and a random path: its ids, and what may be chosen before
    each."""
    path: list[int] = []
    choices: list[frozenset[str]] = []
    may = possible(automaton, number)
    routes = frozenset(may)
    for _ in range(MOST_CHOICES):
        if not may:
            break
        name = rng.choice(list(may))
        choice_ids = (may[name], *describe(automaton, may[name])[1:])
        path += describe(automaton, may[name])
        choices += [frozenset(may), *[frozenset[str]()] * (len(choice_ids) - 1)]
        is_over = False
        for chosen in choice_ids:
            is_over = chosen in automaton.states[number].ends
            number = automaton.states[number].moves.get(chosen, number)
        if is_over or automaton.states[number].allowed is None:  # text again
            break
        may = possible(automaton, number)
    return routes, tuple(path), tuple(choices)


def possible(automaton: Automaton, number: int) -> dict[str, int]:
    """Return the ids of the added actions that a state allows, by name."""
    return {name: chosen for name, chosen in list_added(automaton) if automaton.states[number].allows(chosen)}


def list_added(automaton: Automaton) -> Iterator[tuple[str, int]]:
    if automaton.actions is not None:
        yield from ((name, automaton.actions.first + i) for i, name in enumerate(automaton.actions.names))


def describe(automaton: Automaton, chosen: int) -> tuple[int, ...]:
    """Return what a context holds for an added action."""
    assert automaton.actions is not None
    return automaton.actions.descriptions[chosen - automaton.actions.first]
