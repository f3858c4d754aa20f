"""Tell how long episodes will be, or that nothing tells it.

Four sources tell a length: the user (`rlx plan --tokens 800`), a run's own metrics (rlx.preflight.measured),
demonstrations that a stage copies, and those that its policy has just copied. An expert's bare answers tell nothing of
a model that reasons: elsewhere the tokens of an episode are unknown, and three lengths stand for them.

    --tokens | metrics.jsonl | copied demonstrations -> one length     otherwise -> a quarter, half and all that fits

With several agents, lengths are those of one agent's own episode, which has a context of its own (rlx.agents).
An episode has as many turns as its expert takes, or more where its tokens need them (`sampling.max_new_tokens` each).
Prompts, turns and observations are measured on the environment itself, by its expert or by its openings.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from copy import copy
from dataclasses import dataclass, field, replace
from itertools import islice
from zlib import crc32

from rlx.agents import brief
from rlx.dialect import Dialect
from rlx.environment import Environment
from rlx.limits import MANY, MistakeError
from rlx.model.shape import find_file
from rlx.protocol.drawn import Encode
from rlx.record.codec import common_prefix
from rlx.rollout.episode import World, demonstrate_episode, worlds_of
from rlx.rollout.speech import Speech
from rlx.run.run import Run
from rlx.types import Move, Sampling, Task, Trajectory, Turn
from rlx.world import open_episode, trained_parts

MEANS = ("prompt", "sampled", "observed", "contexts", "turns", "agents", "learners")
TASKS, TURNS = 32, 96
"""An expert plays so many tasks of each part at most, and no further one after so many turns."""
OPENINGS = 4
"""Tasks of each part whose prompt is measured where no expert plays."""
AFTER_COPYING = 1.4
"""Tokens of a policy that has copied its demonstrations, by theirs: the embedded model's episodes of Countdown took 194
to 220 tokens, the demonstrations 145."""
TAIL = 4
"""The longest episode of a step has so many times the mean's tokens, or all that fits: 4.4 and 5.6 in GSM8K runs of
verl, which fill their limit of 1,024."""
TOKENS = "--tokens"
PIECE = re.compile(r" ?[A-Za-z\u00c0-\u024f]{1,10}|[^\W\d_]|\d{1,3}|\s+| ?[^\w\s]+|_")
"""Latin words (a long one is two), other letters, numbers of up to three digits, runs of white space or punctuation."""
SHARES = (0.25, 0.5, 1.0)
"""Shares of what fits that stand for an unknown length."""


class LengthError(MistakeError):
    """A length that no episode can have; the message is one line."""


@dataclass(frozen=True, kw_only=True)
class Lengths:
    """Tokens of an episode, on average; with several agents, of one agent's own episode."""

    prompt: float = 150
    sampled: float = 200
    observed: float = 50
    """Tokens that turns after the first see anew: with a protocol that forgets, all that was not there before."""
    contexts: float = 1
    """Contexts of their own: one, and one more for every turn that forgot."""
    turns: float = 1
    longest: int = 0
    """Tokens of the longest context, with what is said in it."""
    agents: float = 1
    """Agents of an episode."""
    learners: float = 1
    """Own episodes of such a length that the update learns from, per episode: those of trained agents."""

    @property
    def tokens(self) -> float:
        return self.prompt + self.sampled + self.observed

    def within(self, context: int) -> Lengths:
        """Cut the episode where its context ends."""
        room = max(1.0, context * self.contexts - self.prompt)
        share = min(1.0, room / (self.sampled + self.observed))
        return replace(self, sampled=share * self.sampled, observed=share * self.observed)


@dataclass(frozen=True, kw_only=True)
class LengthHints:
    """Lengths of episodes that the command line names, or that a run has measured; None where unknown."""

    tokens: float | None = None
    turns: float | None = None
    prompt: float | None = None
    seen: float | None = None
    source: str = TOKENS

    def __post_init__(self) -> None:
        for name in ("tokens", "turns", "prompt", "seen"):
            value = getattr(self, name)
            if value is not None and not 0 <= value <= MANY:
                raise LengthError(f"--{name} {value} cannot be: expected a number up to {MANY:,}")


NO_HINTS = LengthHints()


@dataclass(frozen=True, kw_only=True)
class Played:
    """Episodes of a part as its expert plays them."""

    lengths: Lengths
    is_terse: bool
    """The protocol has room for the act alone, an expert's as a model's."""


@dataclass(frozen=True, kw_only=True)
class Expected:
    """Lengths of a stage's episodes: one where they are known, three where they are not."""

    lengths: tuple[Lengths, ...]
    source: str | None = None
    """Source of the one length; None: it is unknown."""
    most: int
    """Tokens that an episode may sample."""
    experts: Mapping[str, Lengths] = field(default_factory=dict)
    """Lengths of an expert's episodes, by part."""

    @property
    def is_certain(self) -> bool:
        return self.source is not None

    @property
    def usual(self) -> Lengths:
        """The one length, or that in the middle."""
        return self.lengths[len(self.lengths) // 2]


def expect_lengths(run: Run, given: LengthHints = NO_HINTS) -> Expected:
    """Tell the lengths of a stage's episodes, as far as anything tells them; `run` is the stage as a run."""
    worlds, context, trained = worlds_in(run), run.sampling.max_context, run.trained_agents
    played = play_experts(worlds, run.seed, trained)
    experts = {name: one.lengths for name, one in played.items()}
    weights = {name: portion.weight for name, portion in run.env.components.items() if portion.weight} or {"": 1.0}
    each = {name: experts.get(name) or unplayed_lengths(worlds[name], run.seed, len(trained[name])) for name in weights}
    mean = mean_of([lengths.within(context) for lengths in each.values()], list(weights.values()))
    mean = with_hints(mean, given)
    most = max(sampled_most(worlds[name].env, run.sampling, lengths) for name, lengths in each.items())
    if given.tokens is not None:
        one = replace(mean, sampled=tokens_in_hints(given.tokens, most, given.source))
        one = one if given.turns is not None else in_turns(one, run.sampling.max_new_tokens)
        return Expected(lengths=(one,), source=given.source, most=most, experts=experts)
    factor = copying(run, is_terse=all(one.is_terse for one in played.values()))
    if factor is not None and set(weights) <= set(experts):
        copied = replace(mean, sampled=min(most, factor * mean.sampled))
        return Expected(lengths=(copied,), source="demonstrations", most=most, experts=experts)
    three = tuple(in_turns(replace(mean, sampled=share * most), run.sampling.max_new_tokens) for share in SHARES)
    return Expected(lengths=three, most=most, experts=experts)


def tokens_in_hints(tokens: float, most: int, source: str) -> float:
    """Return the tokens of an episode that are given; LengthError where a user gives more than an episode can have."""
    if tokens > most and source == TOKENS:
        limit = f"an episode samples at most {most:,} tokens (sampling.max_new_tokens, sampling.max_context)"
        raise LengthError(f"{TOKENS} {tokens:,.0f} cannot be: {limit}")
    return max(1.0, min(most, tokens))


def in_turns(lengths: Lengths, longest: int) -> Lengths:
    """Give an episode the turns that its tokens need at least, with `longest` in each; each sees as much as before."""
    turns = lengths.sampled / longest
    return lengths if turns <= lengths.turns else with_turns(lengths, turns)


def with_turns(lengths: Lengths, turns: float) -> Lengths:
    """Return an episode of another number of turns, which see and forget as often as those before."""
    ratio = (turns - 1) / (lengths.turns - 1) if lengths.turns > 1 else 0.0
    observed, contexts = ratio * lengths.observed, 1 + ratio * (lengths.contexts - 1)
    return replace(lengths, observed=observed, contexts=contexts, turns=turns)


def with_hints(lengths: Lengths, given: LengthHints) -> Lengths:
    """Replace what the user gives; further turns see as much each as before."""
    scaled = lengths if given.turns is None else with_turns(lengths, given.turns)
    seen = scaled.observed if given.seen is None else given.seen
    prompt = lengths.prompt if given.prompt is None else given.prompt
    return replace(scaled, prompt=prompt, observed=seen)


def copying(run: Run, *, is_terse: bool) -> float | None:
    """Return how many times as much as its demonstrations a policy says; None where it has copied none, or too few and
    is not bound to be as terse."""
    if run.algo.imitates:
        return 1.0
    before, recipe = run.before(), run.model.recipe
    if before is None or not before.algo.imitates or not shows_alike(before, run):
        return None
    is_brief = recipe is None or before.steps <= recipe.brief_steps
    return None if is_brief and not is_terse else AFTER_COPYING


def shows_alike(before: Run, run: Run) -> bool:
    """Tell whether demonstrations are of the environment that is played, but for keys of its expert alone."""
    shown, played = trained_parts(before.env), trained_parts(run.env)
    names_same = (shown.keys(), before.dialects) == (played.keys(), run.dialects)
    return names_same and all(with_expert_of(played[name], own) == own for name, own in shown.items())


def with_expert_of(env: Environment, shown: Environment) -> Environment:
    """Return an environment with the expert of another one of its class (`expert_only_keys`)."""
    if type(env) is not type(shown):
        return env
    changed: Environment = copy(env)
    for key in env.expert_only_keys:
        object.__setattr__(changed, key, getattr(shown, key))
    return changed


def has_room(dialect: Dialect, played: Trajectory) -> bool:
    """Tell whether a turn may say more than what is done."""
    bare = Move(thought="", action=played.turns[0].action)
    return dialect.write(replace(bare, thought="Why")) != dialect.write(bare)


def sampled_most(env: Environment, sampling: Sampling, lengths: Lengths) -> int:
    """Count the tokens that an episode of a part may sample: its turns' limits, in the room of its contexts."""
    limit = turn_limit(env)
    turns = None if limit is None else -(-limit // len(env.agents))
    contexts = lengths.contexts if turns is None else max(lengths.contexts, with_turns(lengths, turns).contexts)
    room = sampling.max_context * contexts - lengths.prompt
    if turns is None or turns > 1:
        room -= min(lengths.observed, room / 2)
    each = sampling.max_new_tokens * (turns or 10**9)
    return max(1, int(min(room, each)))


def turn_limit(env: Environment) -> int | None:
    """Return the turns that an episode may have; None where the context alone ends it."""
    rounds, own = env.max_rounds, env.max_turns  # games limit their turns themselves
    if rounds is not None:
        return rounds + 1
    return own if isinstance(own, int) else None


def play_experts(worlds: Mapping[str, World], seed: int, trained: Mapping[str, Sequence[str]]) -> dict[str, Played]:
    """Measure episodes that the environment's own expert plays, by part, where one can play here and now; `trained` are
    the trained agents of each part. It takes 0.01 to 0.2 s of a core a part."""
    found = {}
    for name, world in worlds.items():
        if can_play(world.env) and world.env.has_expert:
            with suppress(Exception):  # tasks are checked elsewhere, which names an expert that fails
                played = list(demonstrations(world, seed))
                mean = mean_of([length_of_agents(one, trained[name]) for one in played], [1] * len(played))
                found[name] = Played(lengths=mean, is_terse=not has_room(world.speech.dialect, played[0]))
    return found


def demonstrations(world: World, seed: int) -> Iterator[Trajectory]:
    """Yield an expert's episodes of the first training tasks, some TURNS turns in all."""
    turns = 0
    for task in islice(world.env.tasks("train", seed), TASKS):
        episode = demonstrate_episode(world, task, seed)
        yield episode
        turns += len(episode.turns)
        if turns >= TURNS:
            return


def unplayed_lengths(world: World, seed: int, num_trained: int) -> Lengths:
    """Measure the prompts of a part without an expert, where its tasks are here; one turn, no observation."""
    lengths = Lengths(observed=0, agents=len(world.env.agents), learners=num_trained)
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
    told = brief(world.env, task, opening.next_agent)
    return len(world.speech.context(told, opening.observation, (), world.remembering(), opening.legal))


def worlds_in(run: Run) -> dict[str, World]:
    """Return the trained parts with their protocols, as a player meets them."""
    speech = Speech(dialect=run.protocol, encode=encoder(run.model.path), decode=lambda ids: "")
    worlds = worlds_of(run.env, speech)
    return {name: worlds[name] for name in trained_parts(run.env)}


def can_play(env: Environment) -> bool:
    """Tell whether an environment can be played here and now: nothing is fetched, and no live server played with."""
    return not env.is_remote and env.pace != "live"


def encoder(path: str) -> Encode:
    """Return the model's own tokenizer; where that is not here, one that counts as a large vocabulary does."""
    from tokenizers import Tokenizer

    file = find_file(path, "tokenizer.json")
    if file is None:
        return split_roughly
    tokenizer = Tokenizer.from_file(str(file))
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
    wholes = [turn.prompt_ids + turn.completion.token_ids for turn in turns]
    pairs = [(whole, turn.prompt_ids) for whole, turn in zip(wholes, turns[1:])]
    return Lengths(
        prompt=len(turns[0].prompt_ids),
        sampled=sum(len(turn.completion.token_ids) for turn in turns),
        observed=sum(len(prompt) - common_prefix(whole, prompt) for whole, prompt in pairs),
        contexts=1 + sum(common_prefix(whole, prompt) < len(whole) for whole, prompt in pairs),
        turns=len(turns),
        longest=max(map(len, wholes)),
    )


def mean_of(lengths: Sequence[Lengths], weights: Sequence[float]) -> Lengths:
    """Average lengths by their weights; the longest context is that of all."""
    whole = sum(weights)
    told = {
        name: sum(weight * getattr(one, name) for one, weight in zip(lengths, weights, strict=True)) / whole
        for name in MEANS
    }
    return Lengths(**told, longest=max(one.longest for one in lengths))
