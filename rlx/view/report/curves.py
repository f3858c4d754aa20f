"""Learning curves: a metric of the steps that say it, the mean over seeds, for several runs beside each other; by
steps, or by what was spent until then."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from math import inf
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from rlx.base.console import one_line
from rlx.base.limits import LARGEST, MANY, MistakeError, refuse, within
from rlx.evaluation.intervals import mean_interval, mean_of
from rlx.evaluation.intervals import within as cut
from rlx.evaluation.picture import Handles, Panel
from rlx.runs.folder import METRICS
from rlx.runs.form import NATURAL, NUMBER, STRING, made, many
from rlx.runs.series import Series
from rlx.runs.summary import Estimate
from rlx.runs.track import numbers_in, require_numbers

Floats = NDArray[np.float64]
By = Literal["step", "episodes", "tokens"]
SAMPLED: tuple[By, ...] = ("episodes", "tokens")
"""Amounts that steps spend: episodes, with forks, and tokens sampled for them (`batch/episodes`, `batch/tokens`)."""


POSSIBLE = (
    (re.compile(r"(?:[^/]+/)?success/mean|.*pass@\d+|env/(?:f1|em)(?:_\w+)?|reply/only_action"), 0.0, 1.0),
    (re.compile(r".*(?:entropy|/turns|/tokens|/calls|/episodes|/invalid|_words|tree/critical)"), 0.0, inf),
    (re.compile(r"critic/explained"), -inf, 1.0),
)
"""Names of metrics with their least and largest possible value."""
MOST_POINTS = 400
"""Largest number of points of a line that is drawn: more than a picture's width can show."""
FEW = 4
"""Number of lines up to which bands are drawn at full strength."""
NO_COLOURS: Mapping[str, str] = MappingProxyType({})


@dataclass(frozen=True, kw_only=True)
class Curve:
    """A metric of several runs beside each other."""

    metric: str
    """Name in metrics.jsonl."""
    runs: tuple[str, ...]
    """Runs, by name."""
    window: int = 10
    """Number of values in a point's running mean: the point's own value and earlier values."""
    by: By = "step"
    """Amount on the horizontal axis."""
    reach: float | None = None
    """Report the cost at which each run first reached this value."""
    amount: float | None = None
    """Report the metric at this amount instead of at the end."""

    def __post_init__(self) -> None:
        within(1, MANY, window=self.window)
        within(-LARGEST, LARGEST, reach=self.reach)
        within(1, LARGEST, amount=self.amount)
        if not self.runs:
            raise ValueError("runs: expected at least one run")
        if self.by not in get_args(By):
            refuse("by", one_line(self.by, 60), f"one of {', '.join(get_args(By))}")


CURVE = made(
    Curve,
    metric=STRING,
    runs=many(STRING),
    window=NATURAL.unless(10),
    by=STRING.unless("step"),
    reach=NUMBER.unless(None),
    amount=NUMBER.unless(None),
)


@dataclass(frozen=True, kw_only=True)
class Line:
    """The curve of one arm: a metric at the steps at which every seed tells it."""

    steps: Floats
    """Steps of the points."""
    smooth: Floats
    """(seeds, steps)"""
    spent: Mapping[By, Floats]
    """Up to each of these steps, (seeds, steps); nothing of what no step tells."""
    least: float = -inf
    """Smallest possible value of the metric."""
    most: float = inf
    """Largest possible value of the metric."""

    @property
    def mean(self) -> Floats:
        return np.asarray(self.smooth.mean(axis=0))

    @property
    def end(self) -> Estimate:
        """Return the metric at the last step, with Student's interval over seeds."""
        return self.bounded(self.smooth[:, -1])

    def bounded(self, values_S: Floats) -> Estimate:
        """Return the mean over seeds, with Student's interval cut to the possible values."""
        return cut(mean_interval(mean_of(values_S)), self.least, self.most)

    def point(self, curve: Curve) -> Estimate:
        """Return the metric at `curve.amount`, or at a seed's last point before it, with Student's interval."""
        if curve.amount is None:
            return self.end
        spent_ST = self.spent[curve.by]
        places = [min(int(np.searchsorted(spent_T, curve.amount)), len(spent_T) - 1) for spent_T in spent_ST]
        return self.bounded(self.smooth[np.arange(len(places)), places])

    def least_spent(self, by: By) -> float:
        """Return the amount that the shortest seed spent."""
        return float(self.spent[by][:, -1].min())

    def until(self, reach: float, by: By) -> list[float | None]:
        """Return the amount that each seed spent until a point was at `reach`; None for a seed that never was."""
        hits = (np.flatnonzero(smooth_T >= reach) for smooth_T in self.smooth)
        return [float(spent_T[hit[0]]) if len(hit) else None for spent_T, hit in zip(self.spent[by], hits, strict=True)]


def line_of(folders: Sequence[Path], metric: str, window: int) -> Line:
    """Return the line of the runs in these folders, one a seed, at the steps at which all of them tell the metric."""
    values_by_run = [require_numbers(folder / METRICS, metric) for folder in folders]
    steps = sorted(set(values_by_run[0]).intersection(*values_by_run))
    if not steps:
        others = f"that the other {len(folders) - 1} say too"
        raise MistakeError(f"{folders[0] / METRICS}: no step says {one_line(metric, 60)!r} {others}")
    values = np.array([[run_values[step] for step in steps] for run_values in values_by_run], dtype=np.float64)
    smooth = np.stack([running_mean(values_T, window) for values_T in values])
    least, most = possible_values(metric)
    spent = spent_until(folders, steps)
    return Line(steps=np.array(steps, dtype=np.float64), smooth=smooth, spent=spent, least=least, most=most)


def possible_values(metric: str) -> tuple[float, float]:
    """Return the least and the largest possible value of a metric of a step."""
    return next(((least, most) for names, least, most in POSSIBLE if names.fullmatch(metric)), (-inf, inf))


def line_through(seeds: Sequence[Series], window: int) -> Line | None:
    """Return the line of a metric of several seeds, at the steps that all of them say; None where there are none."""
    steps = reduce(np.intersect1d, [series.steps for series in seeds])
    if not len(steps):
        return None
    values = [series.values[np.searchsorted(series.steps, steps)] for series in seeds]
    smooth = np.stack([running_mean(values_T, window) for values_T in values])
    by_step = np.broadcast_to(steps.astype(np.float64), smooth.shape)
    return Line(steps=steps.astype(np.float64), smooth=smooth, spent={"step": by_step})


def spent_until(folders: Sequence[Path], steps: Sequence[int]) -> dict[By, Floats]:
    """Return the amounts that each run spent up to each of these steps."""
    spent: dict[By, Floats] = {"step": np.array([steps] * len(folders), dtype=np.float64)}
    all_steps, indices = range(1, steps[-1] + 1), np.array(steps) - 1
    for by in SAMPLED:
        amounts_by_run = [numbers_in(folder / METRICS, f"batch/{by}") for folder in folders]
        if all(step in run_amounts for run_amounts in amounts_by_run for step in all_steps):
            spent[by] = np.array(
                [np.cumsum([run_amounts[step] for step in all_steps])[indices] for run_amounts in amounts_by_run],
                dtype=np.float64,
            )
    return spent


def running_mean(values_T: Floats, window: int) -> Floats:
    """Return for each value the mean of the value and up to `window` - 1 earlier values."""
    total = np.concatenate([[0.0], np.cumsum(values_T)])
    last = np.arange(1, len(values_T) + 1)
    first = np.maximum(0, last - window)
    return np.asarray((total[last] - total[first]) / (last - first))


def drawn_points(num: int) -> NDArray[np.int64]:
    """Return the places of at most MOST_POINTS of so many points, the first and the last among them."""
    return np.unique(np.linspace(0, num - 1, min(num, MOST_POINTS)).round().astype(np.int64))


def curve_panel(
    title: str, lines: Mapping[str, Line], by: By = "step", colours: Mapping[str, str] = NO_COLOURS
) -> Panel:
    """Return the panel of these lines; a line without a colour takes the next one."""

    def draw(axes: Sequence[Any]) -> Handles:
        (ax,) = axes
        handles, band = [], 0.15 if len(lines) <= FEW else 0.06  # many bands hide the lines
        for name, line in lines.items():
            chosen = drawn_points(len(line.steps))
            amounts = line.spent[by].mean(axis=0)[chosen]
            (drawn,) = ax.plot(amounts, line.mean[chosen], linewidth=1.4, color=colours.get(name))
            low, high = line.smooth.min(axis=0)[chosen], line.smooth.max(axis=0)[chosen]
            ax.fill_between(amounts, low, high, color=drawn.get_color(), alpha=band, linewidth=0)
            handles.append((drawn, name))
        ax.xaxis.get_major_locator().set_params(integer=True)
        ax.set_xlabel(by, fontsize=8)
        return handles

    return Panel(title=title, draw=draw, num_labels=len(lines))
