"""How long episodes are before any is sampled: as those of Countdown were in measured runs (100 tokens of prompt, 200
sampled, 50 of tools), or where an environment's own expert needs more, as that plays them under the run's protocol. In
one that has no room for thoughts a turn is the act alone, an expert's as a model's: there they may be shorter too, and
so may be those that copy an expert, and those that follow on it.

    tasks of training --expert--> turns --tokenizer--> prompt 297  sampled 1,435  observed 9,024
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import islice

from rlx.model.load import SHIPPED
from rlx.model.shape import find_file
from rlx.protocol.drawn import Encode
from rlx.record.codec import common_prefix
from rlx.rollout.episode import demonstrate_episode, worlds_of
from rlx.rollout.speech import Speech
from rlx.run.run import Run
from rlx.types import Dialect, Environment, Move, Trajectory
from rlx.world import has_expert, pace_of, trained_parts

MEANS = ("prompt", "sampled", "observed", "contexts")
TASKS = 4
"""Of each part, that the expert plays."""


@dataclass(frozen=True, kw_only=True)
class Lengths:
    """Tokens of an episode, on average."""

    prompt: float = 100
    sampled: float = 200
    observed: float = 50
    """That turns after the first see anew: with a protocol that forgets, what was not there before is new."""
    contexts: float = 1
    """Contexts of their own: one, and one more for every turn that forgot."""
    longest: int = 350
    """Of one context with what is said in it, at most."""

    def within(self, context: int) -> Lengths:
        """The same, cut where the context ends."""
        fits = self.longest <= context and self.prompt + self.sampled + self.observed <= context * self.contexts
        return self if fits else replace(self.filling(context), longest=self.longest)

    def filling(self, context: int) -> Lengths:
        """After the prompt, the policy's and the tools' shares of whole contexts as they were."""
        room = max(1.0, context * self.contexts - self.prompt)
        observed = room * self.observed // (self.sampled + self.observed)
        return replace(self, observed=observed, sampled=room - observed)


def lengths_of(run: Run) -> dict[str, Lengths]:
    """By part of what is trained on, where an expert can tell. A model that thinks says more than an expert as a
    rule, unless it has copied one. It takes 0.01 to 0.16 s of a core a part (9 x 9
    Sudoku the most), of every stage anew."""
    most = thinks_up_to(run)
    speech = Speech(dialect=run.protocol, encode=encoder(run.model.path), decode=lambda ids: "")
    found = {}
    for name, env in trained_parts(run.env).items():
        if can_tell(env):
            with suppress(Exception):  # an expert that fails is told of where tasks are checked
                world = worlds_of(run.env, speech)[name]
                tasks = islice(env.tasks("train", run.seed), TASKS)
                played = [demonstrate_episode(world, task, run.seed) for task in tasks]
                mean = mean_of([length_of(one) for one in played], [1] * len(played))
                found[name] = no_shorter(mean, most) if can_think(run.dialects[name], played[0]) else mean
    return found


def thinks_up_to(run: Run) -> float | None:
    """How many times as much as its expert a policy says at most; None: nothing bounds it. What copies it says the
    same. What has just copied it, and not briefly, says up to four times as much: nano's Countdown took 200 tokens; of
    300 tasks the expert's mean was 145, and that of the four that are played 56."""
    if run.algo.imitates:
        return 1.0
    before, recipe = run.before(), run.model.recipe
    if before is None or not before.algo.imitates or (before.env, before.protocol) != (run.env, run.protocol):
        return None
    return None if recipe is None or before.steps <= recipe.brief_steps else 4.0


def can_tell(env: Environment) -> bool:
    """Whether an expert plays it here and now: nothing is fetched, and no live server played with."""
    return has_expert(env) and not getattr(env, "fetches", False) and pace_of(env) != "live"


def can_think(dialect: Dialect, played: Trajectory) -> bool:
    """Whether a turn says more than what is done."""
    bare = Move(thought="", action=played.turns[0].action)
    return dialect.write(replace(bare, thought="Why")) != dialect.write(bare)


def encoder(path: str) -> Encode:
    """The model's own tokenizer; where that is not here, the embedded model's, which takes somewhat more tokens."""
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(str(find_file(path, "tokenizer.json") or SHIPPED / "nano" / "tokenizer.json"))
    return lambda text: tokenizer.encode(text.encode(errors="replace").decode(), add_special_tokens=False).ids


def length_of(episode: Trajectory) -> Lengths:
    wholes = [turn.prompt_ids + turn.completion.token_ids for turn in episode.turns]
    pairs = [(whole, turn.prompt_ids) for whole, turn in zip(wholes, episode.turns[1:])]
    return Lengths(
        prompt=len(episode.turns[0].prompt_ids),
        sampled=episode.num_tokens,
        observed=sum(len(prompt) - common_prefix(whole, prompt) for whole, prompt in pairs),
        contexts=1 + sum(common_prefix(whole, prompt) < len(whole) for whole, prompt in pairs),
        longest=max(map(len, wholes)),
    )


def no_shorter(lengths: Lengths, most: float | None) -> Lengths:
    """Than Countdown's, in nothing, or than `most` times these where that is less."""

    def of(name: str) -> float:
        told, usual = getattr(lengths, name), getattr(Lengths(), name)
        return max(told, usual if most is None else min(usual, most * told))

    return Lengths(**{name: of(name) for name in MEANS}, longest=lengths.longest)


def mean_of(lengths: Sequence[Lengths], weights: Sequence[float]) -> Lengths:
    """Of their means; the longest of all."""
    whole = sum(weights)
    told = {
        name: sum(weight * getattr(one, name) for one, weight in zip(lengths, weights, strict=True)) / whole
        for name in MEANS
    }
    return Lengths(**told, longest=max(one.longest for one in lengths))
