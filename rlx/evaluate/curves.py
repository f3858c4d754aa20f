"""Learning curves: a metric of the steps that say it, the mean over seeds, for several runs beside each other; by
steps, or by what was spent until then."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from io import StringIO
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from rlx.console import one_line
from rlx.evaluate.intervals import Estimate, mean_interval, mean_of
from rlx.limits import LARGEST, MANY, MistakeError, refuse, within
from rlx.record.folder import METRICS
from rlx.record.track import numbers_in

Floats = NDArray[np.float64]
SALT = "rlx"
"""What names in a picture are made of, so that one picture is one text."""


By = Literal["step", "episodes", "tokens"]
SAMPLED: tuple[By, ...] = ("episodes", "tokens")
"""What steps spend: episodes, forks among them, and tokens sampled for them (`batch/episodes`, `batch/tokens`)."""


@dataclass(frozen=True, kw_only=True)
class Curve:
    """What is drawn beside each other."""

    metric: str
    """As in metrics.jsonl."""
    of: tuple[str, ...]
    """Runs, by name."""
    window: int = 10
    """Values that a point is the mean of, its own and those before it."""
    by: By = "step"
    """What is below it."""
    reach: float | None = None
    """A value of which it is told what each run spent until a point was there."""

    def __post_init__(self) -> None:
        within(1, MANY, window=self.window)
        within(-LARGEST, LARGEST, reach=self.reach)
        if not self.of:
            raise ValueError("of: expected at least one run")
        if self.by not in get_args(By):
            refuse("by", one_line(self.by, 60), f"one of {', '.join(get_args(By))}")


@dataclass(frozen=True, kw_only=True)
class Line:
    """Of one run."""

    steps: Floats
    """Those that say it."""
    smooth: Floats
    """(seeds, steps)"""
    spent: Mapping[By, Floats]
    """Up to each of these steps, (seeds, steps); nothing of what no step tells."""

    @property
    def mean(self) -> Floats:
        return np.asarray(self.smooth.mean(axis=0))

    @property
    def end(self) -> Estimate:
        """At the last step, with Student's interval over seeds."""
        return mean_interval(mean_of(self.smooth[:, -1]))

    def until(self, reach: float, by: By) -> list[float | None]:
        """What each seed's run spent until a point was there; None of one that never was."""
        hits = (np.flatnonzero(smooth_T >= reach) for smooth_T in self.smooth)
        return [float(spent_T[hit[0]]) if len(hit) else None for spent_T, hit in zip(self.spent[by], hits, strict=True)]


def line_of(folders: Sequence[Path], metric: str, window: int) -> Line:
    """Of the runs in these folders, one a seed, at the steps at which all of them say it."""
    told = [numbers_in(folder / METRICS, metric) for folder in folders]
    steps = sorted(set(told[0]).intersection(*told))
    if not steps:
        others = f" that the other {len(folders) - 1} say too" if all(told) else ""
        lacking = next((folder for folder, own in zip(folders, told, strict=True) if not own), folders[0])
        raise MistakeError(f"{lacking / METRICS}: no step says {metric!r:.60}{others}")
    values = np.array([[own[step] for step in steps] for own in told], dtype=np.float64)
    smooth = np.stack([running_mean(values_T, window) for values_T in values])
    return Line(steps=np.array(steps, dtype=np.float64), smooth=smooth, spent=spent_until(folders, steps))


def spent_until(folders: Sequence[Path], steps: Sequence[int]) -> dict[By, Floats]:
    """Of each run, up to each of these steps."""
    found: dict[By, Floats] = {"step": np.array([steps] * len(folders), dtype=np.float64)}
    every, at = range(1, steps[-1] + 1), np.array(steps) - 1
    for by in SAMPLED:
        told = [numbers_in(folder / METRICS, f"batch/{by}") for folder in folders]
        if all(step in own for own in told for step in every):
            found[by] = np.array([np.cumsum([own[step] for step in every])[at] for own in told], dtype=np.float64)
    return found


def running_mean(values_T: Floats, window: int) -> Floats:
    """Each with the mean of itself and up to `window` - 1 before it."""
    total = np.concatenate([[0.0], np.cumsum(values_T)])
    last = np.arange(1, len(values_T) + 1)
    first = np.maximum(0, last - window)
    return np.asarray((total[last] - total[first]) / (last - first))


def curves_svg(panels: Mapping[str, Mapping[str, Line]], by: Mapping[str, By] = MappingProxyType({})) -> str:
    """A panel for each title, a line for each name: the mean over seeds, and from the least to the most of them, `by`
    steps where nothing else is said."""
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    with rc_context({"svg.hashsalt": SALT, "svg.fonttype": "none", "text.parse_math": False}):
        figure = Figure(figsize=(4.2 * len(panels), 3.2), layout="constrained")
        for axes, (title, lines) in zip(figure.subplots(1, len(panels), squeeze=False)[0], panels.items(), strict=True):
            draw(axes, title, lines, by.get(title, "step"))
        text = StringIO()
        figure.savefig(text, format="svg", metadata={"Date": None})
    return text.getvalue()


def draw(axes: Any, title: str, lines: Mapping[str, Line], by: By) -> None:
    for name, line in lines.items():
        at = line.spent[by].mean(axis=0)
        (drawn,) = axes.plot(at, line.mean, label=name, linewidth=1.4)
        spread = line.smooth.min(axis=0), line.smooth.max(axis=0)
        axes.fill_between(at, *spread, color=drawn.get_color(), alpha=0.15, linewidth=0)
    axes.set_title(one_line(title), fontsize=9)
    axes.set_xlabel(by, fontsize=8)
    axes.tick_params(labelsize=7)
    axes.legend(fontsize=7)
