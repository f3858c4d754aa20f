"""Measure prompts, turns and observations on an environment itself, by its expert or by its openings."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import islice
from zlib import crc32

from rlx.agents import brief
from rlx.dialect import Dialect
from rlx.environment import Environment
from rlx.model.load import read_tokenizer
from rlx.model.shape import find_file
from rlx.preflight.lengths import Lengths, mean_of
from rlx.protocol.drawn import Encode
from rlx.record.codec import common_prefix
from rlx.rollout.episode import World, demonstrate_episode, worlds_of
from rlx.rollout.speech import Speech
from rlx.run.run import Run
from rlx.types import Move, Task, Trajectory, Turn
from rlx.world import open_episode, trained_parts

TASKS, TURNS = 32, 96
"""An expert plays so many tasks of each part at most, and no further one after so many turns."""
PATIENCE = 10.0
"""Seconds after which no further task of a part is played: an environment may take as long to start."""
OPENINGS = 4
"""Tasks of each part whose prompt is measured where no expert plays."""
PIECE = re.compile(r" ?[A-Za-z\u00c0-\u024f]{1,10}|[^\W\d_]|\d{1,3}|\s+| ?[^\w\s]+|_")
"""Latin words (a long one is two), other letters, numbers of up to three digits, runs of white space or punctuation."""


@dataclass(frozen=True, kw_only=True)
class Played:
    """Measures of an expert's episodes of a part."""

    lengths: Lengths
    is_terse: bool
    """The protocol has room for the act alone, an expert's as a model's."""


def play_experts(worlds: Mapping[str, World], seed: int, trained: Mapping[str, Sequence[str]]) -> dict[str, Played]:
    """Measure episodes that the environment's own expert plays, by part, where one can play here and now; `trained` are
    the trained agents of each part. It takes 0.01 to 0.2 s of a core a part where episodes start at once."""
    measured = {}
    for name, world in worlds.items():
        if can_play(world.env) and world.env.has_expert:
            with suppress(Exception):  # tasks are checked elsewhere, which names an expert that fails
                played = list(demonstrations(world, seed))
                mean = mean_of([length_of_agents(episode, trained[name]) for episode in played], [1] * len(played))
                measured[name] = Played(lengths=mean, is_terse=not has_room(world.speech.dialect, played[0]))
    return measured


def demonstrations(world: World, seed: int) -> Iterator[Trajectory]:
    """Yield an expert's episodes of the first training tasks: some TURNS turns in all, or those of PATIENCE seconds."""
    turns, began = 0, time.monotonic()
    for task in islice(world.env.tasks("train", seed), TASKS):
        episode = demonstrate_episode(world, task, seed)
        yield episode
        turns += len(episode.turns)
        if turns >= TURNS or time.monotonic() - began > PATIENCE:
            return


def has_room(dialect: Dialect, played: Trajectory) -> bool:
    """Tell whether a turn may say more than what is done."""
    bare = Move(thought="", action=played.turns[0].action)
    return dialect.write(replace(bare, thought="Why")) != dialect.write(bare)


def unplayed_lengths(world: World, seed: int, num_trained: int) -> Lengths:
    """Measure the prompts of a part without an expert, where its tasks are here; one turn, no observation."""
    alone = world.speech.dialect.stands_alone
    lengths = Lengths(observed=0, agents=len(world.env.agents), learners=num_trained, is_alone=alone)
    if not can_play(world.env):
        return lengths
    with suppress(Exception):
        openings = [prompt_tokens(world, task) for task in islice(world.env.tasks("train", seed), OPENINGS)]
        return replace(lengths, prompt=sum(openings) / len(openings))
    return lengths


def prompt_tokens(world: World, task: Task) -> int:
    """Count the tokens before the first turn; with several agents, those of the agent that begins."""
    with open_episode(world.env, task) as episode:
        opening = episode.opening()
    briefing = brief(world.env, task, opening.next_agent)
    return len(world.speech.context(briefing, opening.observation, (), world.remembering(), opening.legal))


def worlds_in(run: Run) -> dict[str, World]:
    """Return the trained parts with their protocols, as a player meets them."""
    speech = Speech(dialect=run.protocol, encode=encoder(run.model.path), decode=lambda ids: "")
    worlds = worlds_of(run.env, speech)
    return {name: worlds[name] for name in trained_parts(run.env)}


def can_play(env: Environment) -> bool:
    """Tell whether an environment can be played here and now: nothing is fetched, and no live server played with."""
    return not env.is_remote and env.pace != "live"


def encoder(path: str) -> Encode:
    """Return the model's own tokenizer, or a rough count of a large vocabulary's tokens before its download."""
    file = find_file(path, "tokenizer.json")
    if file is None:
        return split_roughly
    tokenizer = read_tokenizer(file)
    return lambda text: tokenizer.encode(text.encode(errors="replace").decode(), add_special_tokens=False).ids


def split_roughly(text: str) -> list[int]:
    """Return an id for each piece into which tokenizers of large vocabularies split text first. Most words are tokens.

    The embedded model's tokenizer would mislead here: whole sentences of its own prompts are single tokens of it.
    """
    return [crc32(piece.encode(errors="replace")) for piece in PIECE.findall(text)]


def length_of_agents(episode: Trajectory, trained: Sequence[str]) -> Lengths:
    """Measure the own episodes of all agents that act in an episode, on average."""
    names = dict.fromkeys(turn.agent for turn in episode.turns)
    each = {name: length_of([turn for turn in episode.turns if turn.agent == name]) for name in names}
    mean = mean_of(list(each.values()), [1] * len(each))
    learned = sum(lengths.tokens for name, lengths in each.items() if name in trained)
    return replace(mean, agents=len(each), learners=learned / mean.tokens)


def length_of(turns: Sequence[Turn]) -> Lengths:
    """Measure the turns of one agent."""
    contexts = [turn.prompt_ids + turn.completion.token_ids for turn in turns]
    pairs = [(context, turn.prompt_ids) for context, turn in zip(contexts, turns[1:])]
    return Lengths(
        prompt=len(turns[0].prompt_ids),
        sampled=sum(len(turn.completion.token_ids) for turn in turns),
        observed=sum(len(prompt) - common_prefix(context, prompt) for context, prompt in pairs),
        contexts=1 + sum(common_prefix(context, prompt) < len(context) for context, prompt in pairs),
        turns=len(turns),
        longest=max(map(len, contexts)),
    )
