"""Tokens of an episode, and what the command line or a run's metrics say of them.

With several agents, lengths are those of one agent's own episode, which has a context of its own
(rlx.environment.agents).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from rlx.base.limits import MANY, MistakeError, above

MEANS = ("prompt", "sampled", "observed", "contexts", "turns", "agents", "learners")
TOKENS = "--tokens"


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
    """Separate contexts: the first, and another for every turn that forgot."""
    turns: float = 1
    longest: int = 0
    """Tokens of the longest context, with what is said in it."""
    agents: float = 1
    """Agents of an episode."""
    learners: float = 1
    """Own episodes of such a length that the update learns from, per episode: those of trained agents."""
    is_alone: bool = False
    """Every turn has a context of its own, however many there are."""

    @property
    def tokens(self) -> float:
        return self.prompt + self.sampled + self.observed

    def within(self, context: int) -> Lengths:
        """Cut the episode where its context ends."""
        room = max(1.0, context * self.contexts - self.prompt)
        share = min(1.0, room / (self.sampled + self.observed))
        return replace(self, sampled=share * self.sampled, observed=share * self.observed)


@dataclass(frozen=True, kw_only=True)
class Published:
    """Lengths of a paper's episodes, which a preset's may be like; None where the paper does not print one."""

    tokens: float | None = None
    turns: float | None = None
    source: str

    def __post_init__(self) -> None:
        above(0, MANY, tokens=self.tokens, turns=self.turns)


@dataclass(frozen=True, kw_only=True)
class LengthHints:
    """Lengths of episodes that the command line names, or that a run has measured; None where unknown."""

    tokens: float | None = None
    turns: float | None = None
    prompt: float | None = None
    observed: float | None = None
    source: str = TOKENS
    published: Published | None = None
    """Usual length of a preset's episodes, which does not rule out others."""

    def __post_init__(self) -> None:
        for name in ("tokens", "turns", "prompt", "observed"):
            value = getattr(self, name)
            if value is not None and not 0 <= value <= MANY:
                raise LengthError(f"--{name} {value} cannot be: expected a number up to {MANY:,}")


NO_HINTS = LengthHints()


def tokens_in_hints(tokens: float, most: int, source: str) -> float:
    """Return the tokens of an episode that are given; LengthError where a user gives more than an episode can have."""
    if tokens > most and source == TOKENS:
        limit = f"an episode samples at most {most:,} tokens (sampling.max_new_tokens, sampling.max_context)"
        raise LengthError(f"{TOKENS} {tokens:,.0f} cannot be: {limit}")
    return max(1.0, min(most, tokens))


def in_turns(lengths: Lengths, longest: int, observed: float | None = None) -> Lengths:
    """Give an episode at least the turns that its tokens need, with `longest` in each. `observed` replaces the tokens
    of all observations; None: a turn observes as much as before."""
    turns = lengths.sampled / longest
    more = lengths if turns <= lengths.turns else with_turns(lengths, turns)
    return more if observed is None else replace(more, observed=observed)


def with_turns(lengths: Lengths, turns: float) -> Lengths:
    """Return an episode of another number of turns, which see and forget as often as those before."""
    ratio = (turns - 1) / (lengths.turns - 1) if lengths.turns > 1 else 0.0
    observed, contexts = ratio * lengths.observed, turns if lengths.is_alone else 1 + ratio * (lengths.contexts - 1)
    return replace(lengths, observed=observed, contexts=contexts, turns=turns)


def with_hints(lengths: Lengths, hints: LengthHints) -> Lengths:
    """Replace what the user gives; further turns see as much each as before."""
    scaled = lengths if hints.turns is None else with_turns(lengths, hints.turns)
    observed = scaled.observed if hints.observed is None else hints.observed
    prompt = lengths.prompt if hints.prompt is None else hints.prompt
    return replace(scaled, prompt=prompt, observed=observed)


def mean_of(lengths: Sequence[Lengths], weights: Sequence[float]) -> Lengths:
    """Average lengths by their weights; the longest context is that of all."""
    total = sum(weights)
    means = {
        name: sum(weight * getattr(length, name) for length, weight in zip(lengths, weights, strict=True)) / total
        for name in MEANS
    }
    alone = all(length.is_alone for length in lengths)
    return Lengths(**means, longest=max(length.longest for length in lengths), is_alone=alone)
