"""Tell how long episodes will be, or that nothing tells it.

Four sources tell a length: the user (`rlx plan --tokens 800`), a run's own metrics (rlx.plan.measured),
demonstrations that a stage copies, and those that its policy has just copied. An expert's bare answers tell nothing of
a model that reasons. Elsewhere the tokens of an episode are unknown, and a usual length stands for them: a published
length of the preset, else the recipe's `usual_turn` or `usual_answer`, between a third of it and a full context.

    --tokens | metrics.jsonl | copied demonstrations -> one length     otherwise -> a third of the usual, usual, all

An episode has the turns of its expert, and more for tokens beyond their limit (`sampling.max_new_tokens` each).
"""

from __future__ import annotations

from collections.abc import Mapping
from copy import copy
from dataclasses import dataclass, field, replace

from rlx.environment import Environment
from rlx.environment.world import trained_parts
from rlx.model.recipe import USUAL_ANSWER, USUAL_TURN
from rlx.plan.lengths import (
    NO_HINTS,
    TOKENS,
    LengthError,
    LengthHints,
    Lengths,
    Published,
    in_turns,
    mean_of,
    tokens_in_hints,
    with_hints,
    with_turns,
)
from rlx.plan.played import can_play, play_experts, unplayed_lengths, worlds_in
from rlx.rollout.episode import World
from rlx.run.run import Run
from rlx.types import Sampling

AFTER_COPYING = 1.4
"""Tokens of a policy that has copied its demonstrations, by theirs: the embedded model's episodes of Countdown took 194
to 220 tokens, the demonstrations 145."""
TAIL = 4
"""The longest episode of a step has so many times the mean's tokens, or all that fits: 4.4 and 5.6 in GSM8K runs of
verl, which fill their limit of 1,024."""
LOW = 1 / 3
"""Share of the usual length below it. On mathematics a reasoning model of 8B took 1,850 tokens in one run and another
of 1.5B took 5,500 in another; answers on GSM8K take a fourth of those on harder problems."""
USUAL_TURNS = 5
"""Turns of an episode without an expert, within its limit: CARL's agents took 3.3 to 4.9 (its Table 4)."""


@dataclass(frozen=True, kw_only=True)
class Expected:
    """Lengths of a stage's episodes: a known length, or three guesses."""

    lengths: tuple[Lengths, ...]
    source: str | None = None
    """Source of the one length; None: it is unknown."""
    usual_source: str = ""
    """Source of the usual one of three lengths."""
    most: int
    """Tokens that an episode may sample."""
    experts: Mapping[str, Lengths] = field(default_factory=dict)
    """Lengths of an expert's episodes, by part."""
    unknown: tuple[str, ...] = ()
    """Hints that would tell what nothing tells here: `--prompt` (taken as 150 tokens), `--observed` (as none)."""

    @property
    def is_certain(self) -> bool:
        return self.source is not None

    @property
    def usual(self) -> Lengths:
        """The one length, or that in the middle."""
        return self.lengths[len(self.lengths) // 2]


def expect_lengths(run: Run, hints: LengthHints = NO_HINTS) -> Expected:
    """Tell the lengths of a stage's episodes, as far as anything tells them; `run` is the stage as a run."""
    worlds, context, trained = worlds_in(run), run.sampling.max_context, run.trained_agents
    played = play_experts(worlds, run.seed, trained)
    experts = {name: measured.lengths for name, measured in played.items()}
    weights = {name: portion.weight for name, portion in run.env.components.items() if portion.weight} or {"": 1.0}
    each = {name: experts.get(name) or unplayed_lengths(worlds[name], run.seed, len(trained[name])) for name in weights}
    mean = mean_of([lengths.within(context) for lengths in each.values()], list(weights.values()))
    mean = with_hints(mean, hints)
    check_hints(mean, hints, context)
    unknown = unknown_hints(run, {name: worlds[name].env for name in weights if name not in experts}, hints)
    most = max(sampled_most(worlds[name].env, run.sampling, lengths) for name, lengths in each.items())
    if hints.tokens is not None:
        length = replace(mean, sampled=tokens_in_hints(hints.tokens, most, hints.source))
        length = length if hints.turns is not None else in_turns(length, run.sampling.max_new_tokens, hints.observed)
        return Expected(lengths=(length,), source=hints.source, most=most, experts=experts, unknown=unknown)
    factor = copying(run, is_terse=all(measured.is_terse for measured in played.values()))
    if factor is not None and set(weights) <= set(experts):
        copied = replace(mean, sampled=min(most, factor * mean.sampled))
        return Expected(lengths=(copied,), source="demonstrations", most=most, experts=experts)
    usual, source = usual_lengths(run, mean, worlds, weights, experts, hints)
    tokens = min(usual.sampled, most / 2)
    three = (replace(usual, sampled=num) for num in (LOW * tokens, tokens, most))
    three_lengths = tuple(in_turns(length, run.sampling.max_new_tokens, hints.observed) for length in three)
    return Expected(lengths=three_lengths, usual_source=source, most=most, experts=experts, unknown=unknown)


def usual_lengths(
    run: Run,
    mean: Lengths,
    worlds: Mapping[str, World],
    weights: Mapping[str, float],
    experts: Mapping[str, Lengths],
    hints: LengthHints,
) -> tuple[Lengths, str]:
    """Return the usual length of an episode, and its source: a published length, else the recipe's, in the turns of the
    paper, of an expert or in a usual number of turns."""
    published = hints.published or Published(source="")
    if published.tokens is not None:
        turns = hints.turns or published.turns or mean.turns
        return replace(with_turns(mean, turns), sampled=published.tokens), published.source
    recipe = run.model.recipe
    answer, turn = (USUAL_ANSWER, USUAL_TURN) if recipe is None else (recipe.usual_answer, recipe.usual_turn)
    each = {name: usual_turns(worlds[name].env, experts.get(name)) for name in weights}
    mean_turns = sum(weight * each[name] for name, weight in weights.items()) / sum(weights.values())
    turns = hints.turns or published.turns or mean_turns
    is_one = all(turn_limit(worlds[name].env) == 1 for name in weights)
    tokens = answer if is_one else turns * turn
    key = "usual_answer" if is_one else "usual_turn"
    source = f"model.recipe.{key}"
    if published.turns is not None and hints.turns is None:
        source = f"{source}, {turns:g} turns: {published.source}"
    return replace(with_turns(mean, turns), sampled=tokens), source


def usual_turns(env: Environment, played: Lengths | None) -> float:
    """Return the turns of an agent's episode: its expert's, or usual ones."""
    if played is not None:
        return played.turns
    limit = turn_limit(env)
    most = USUAL_TURNS if limit is None else -(-limit // len(env.agents))
    return min(USUAL_TURNS, most)


def check_hints(lengths: Lengths, hints: LengthHints, context: int) -> None:
    """LengthError where a user gives a prompt that no context holds, or more to see than an episode's one context
    holds; how many contexts a protocol that forgets begins, only the episode says."""
    is_one = lengths.contexts == 1 and not lengths.is_alone
    for name, most in (("prompt", context - 1), *([("observed", context)] if is_one else [])):
        value = getattr(hints, name)
        if hints.source == TOKENS and value is not None and value > most:
            raise LengthError(f"--{name} {value:,.0f} cannot be: sampling.max_context={context:,} leaves {most:,}")


def unknown_hints(run: Run, unplayed: Mapping[str, Environment], hints: LengthHints) -> tuple[str, ...]:
    """Return the hints without which lengths are not known: of prompts that are not here, and of what further turns of
    an agent see that no expert plays."""
    is_prompt = hints.prompt is None and not all(map(can_play, unplayed.values()))
    is_observed = hints.observed is None and any(turn_limit(env) != 1 for env in unplayed.values())
    return ("--prompt",) * is_prompt + ("--observed",) * is_observed


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
    expert_parts, played_parts = trained_parts(before.env), trained_parts(run.env)
    names_same = (expert_parts.keys(), before.dialects) == (played_parts.keys(), run.dialects)
    return names_same and all(
        with_expert_of(played_parts[name], expert_env) == expert_env for name, expert_env in expert_parts.items()
    )


def with_expert_of(env: Environment, other: Environment) -> Environment:
    """Return an environment with the expert of another one of its class (`expert_only_keys`)."""
    if type(env) is not type(other):
        return env
    changed: Environment = copy(env)
    for key in env.expert_only_keys:
        object.__setattr__(changed, key, getattr(other, key))
    return changed


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
    rounds, game_limit = env.max_rounds, env.max_turns  # games limit their turns themselves
    if rounds is not None:
        return rounds + 1
    return game_limit if isinstance(game_limit, int) else None
