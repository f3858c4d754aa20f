"""One of a reproduction's runs, and the order in which they begin."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from rlx.base.limits import MANY, within
from rlx.runs.form import FLAG, NUMBER, STRING, made, many


@dataclass(frozen=True, kw_only=True)
class Arm:
    """One of the runs, for one seed or all."""

    words: tuple[str, ...] = ()
    per_seed: bool = False
    needs: tuple[str, ...] = ()
    goes_on_from: str = ""
    as_long_as: str = ""
    as_much_as: str = ""
    by_steps_of: str = ""
    tokens: float | None = None

    def __post_init__(self) -> None:
        if self.tokens is not None:
            within(1, MANY, tokens=self.tokens)
        if self.as_long_as and self.as_much_as:
            raise ValueError("as_long_as and as_much_as: expected one of them, as a run has one length")

    @property
    def like(self) -> str:
        """Return the run whose length it takes."""
        return self.as_long_as or self.as_much_as

    @property
    def waits_for(self) -> tuple[str, ...]:
        return (*self.needs, *(name for name in (self.goes_on_from, self.like, self.by_steps_of) if name))


def in_order(runs: Mapping[str, Arm]) -> list[str]:
    """Return the names of the runs in an order that respects `waits_for`; ValueError for a cycle."""
    ordered: list[str] = []
    while len(ordered) < len(runs):
        free = [name for name, arm in runs.items() if name not in ordered and set(arm.waits_for) <= set(ordered)]
        if not free:
            raise ValueError(f"{', '.join(name for name in runs if name not in ordered)} wait for each other")
        ordered += free
    return ordered


WORDS = many(STRING).unless(())
ARM = made(
    Arm,
    words=WORDS,
    per_seed=FLAG.unless(False),
    needs=WORDS,
    goes_on_from=STRING.unless(""),
    as_long_as=STRING.unless(""),
    as_much_as=STRING.unless(""),
    by_steps_of=STRING.unless(""),
    tokens=NUMBER.unless(None),
)
