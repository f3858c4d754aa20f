"""Settings of a reproduction's pictures, each of some rows of its tables. rlx/lab/reproduce/reproduction.py says what
the keys mean."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rlx.base.console import one_line
from rlx.base.limits import near, refuse
from rlx.evaluation.picture import MOST_ROWS
from rlx.rollout.measure import EMPTY
from rlx.runs.form import FLAG, STRING, made, many

MOST_FIGURES = 8
"""Largest number of figures of a panel of bars."""


@dataclass(frozen=True, kw_only=True)
class PassCurves:
    """Pass@k against k: a line with intervals for each row."""

    rows: tuple[str, ...]
    part: str = ""
    """Part of a mixture, or `overall`; empty: all tasks."""

    def __post_init__(self) -> None:
        check_names("rows", self.rows, MOST_ROWS)

    def name_of(self, k: int) -> str:
        """Return the name of the figure."""
        return f"{self.part}/pass@{k}" if self.part else f"pass@{k}"


@dataclass(frozen=True, kw_only=True)
class Bars:
    """Several figures: for each, a bar with its interval for each row."""

    rows: tuple[str, ...]
    figures: tuple[str, ...]

    def __post_init__(self) -> None:
        check_names("rows", self.rows, MOST_ROWS)
        check_names("figures", self.figures, MOST_FIGURES)


@dataclass(frozen=True, kw_only=True)
class Distribution:
    """Distribution of a figure over the episodes of an evaluation, all seeds together: a histogram for each row."""

    rows: tuple[str, ...]
    figure: str = "episode/tokens"
    """Statistic of an episode (`rlx.rollout.measure.describe`); `episode/tokens` are the sampled ones."""
    part: str = ""
    """Part of a mixture; empty: all of them."""
    correct: bool = True
    """Leave out the episodes that failed."""

    def __post_init__(self) -> None:
        check_names("rows", self.rows, MOST_ROWS)
        if self.figure not in EMPTY:
            refuse("figure", one_line(self.figure, 60), f"one of {', '.join(EMPTY)}")


@dataclass(frozen=True, kw_only=True)
class Frontier:
    """One figure against another: a point with both intervals for each row."""

    rows: tuple[str, ...]
    across: str
    """Figure of the horizontal axis, such as a cost."""
    up: str
    """Figure of the vertical axis."""
    line: tuple[str, ...] = ()
    """Rows that a line connects, in its order."""

    def __post_init__(self) -> None:
        check_names("rows", self.rows, MOST_ROWS)
        if self.line:
            check_names("line", self.line, MOST_ROWS)
        for name in (name for name in self.line if name not in self.rows):
            raise ValueError(f"line: {one_line(name, 60)}: there is no such row of this picture{near(name, self.rows)}")


def check_names(key: str, names: Sequence[str], most: int) -> None:
    """Check the number of names, and that each is there once."""
    if not 1 <= len(names) <= most:
        raise ValueError(f"{key}: expected 1 to {most} names, not {len(names)}")
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"{key}: {one_line(twice, 60)} is there twice")


Picture = PassCurves | Bars | Distribution | Frontier

NAMES = many(STRING)
PASS_CURVES = made(PassCurves, rows=NAMES, part=STRING.unless(""))
BARS = made(Bars, rows=NAMES, figures=NAMES)
DISTRIBUTION = made(
    Distribution,
    rows=NAMES,
    figure=STRING.unless("episode/tokens"),
    part=STRING.unless(""),
    correct=FLAG.unless(True),
)
FRONTIER = made(Frontier, rows=NAMES, across=STRING, up=STRING, line=NAMES.unless(()))


def figures_in(picture: Picture, ks: Sequence[int]) -> list[str]:
    """Return the figures of rows that a picture shows."""
    match picture:
        case PassCurves():
            return [picture.name_of(k) for k in ks]
        case Bars():
            return list(picture.figures)
        case Frontier():
            return [picture.across, picture.up]
        case Distribution():
            return []
