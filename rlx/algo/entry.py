"""The ways to enter a verb in a turn, and probes of the places where an episode might have done so."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from rlx.types import Turn


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """The way to enter a verb in a turn: a route beyond the vocabulary, or the tag that begins its block."""

    name: str
    chosen: tuple[int, ...]
    """Tokens to choose in order to enter it."""
    words: tuple[int, ...]
    """First tokens of the verb's name, spelled in different ways."""
    description: tuple[int, ...] = ()
    """All tokens of its description: of a route what a context holds for it, of a tag the tag itself."""
    possible: Callable[[Sequence[int]], Sequence[bool]] | None = field(default=None, compare=False)
    """For each of a turn's tokens, whether the protocol reads an entry before it; None: masks alone decide."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Probe:
    """A question to the policy, by a sampler: log p(ids[skip:] | ids[:skip], the first `token` tokens of the turn and
    all before them), teacher-forced, under the masks and the temperature of the turn."""

    turn: Turn
    token: int
    ids: tuple[int, ...]
    skip: int = 0
    """Leading ids whose probability is not asked for."""
