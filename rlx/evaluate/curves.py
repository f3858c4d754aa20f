"""Learning curves: a metric of the steps that say it, the mean over seeds, for several runs beside each other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from io import StringIO
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlx.evaluate.intervals import Estimate, mean_interval, mean_of
from rlx.limits import MistakeError, at_least
from rlx.record.folder import METRICS
from rlx.record.track import read_metrics

Floats = NDArray[np.float64]
SALT = "rlx"
"""What names in a picture are made of, so that one picture is one text."""


@dataclass(frozen=True, kw_only=True)
class Curve:
    """What is drawn beside each other."""

    metric: str
    """As in metrics.jsonl."""
    of: tuple[str, ...]
    """Runs, by name."""
    window: int = 10
    """Values that a point is the mean of, its own and those before it."""

    def __post_init__(self) -> None:
        at_least(1, window=self.window)


@dataclass(frozen=True, kw_only=True)
class Line:
    """Of one run."""

    steps: Floats
    """Those that say it."""
    smooth: Floats
    """(seeds, steps)"""

    @property
    def mean(self) -> Floats:
        return np.asarray(self.smooth.mean(axis=0))

    @property
    def end(self) -> Estimate:
        """At the last step, with Student's interval over seeds."""
        return mean_interval(mean_of(self.smooth[:, -1]))


def line_of(folders: Sequence[Path], metric: str, window: int) -> Line:
    """Of the runs in these folders, one a seed, at the steps at which all of them say it."""
    told = [values_of(folder, metric) for folder in folders]
    steps = sorted(set(told[0]).intersection(*told))
    if not steps:
        others = f" that the other {len(folders) - 1} say too" if all(told) else ""
        raise MistakeError(f"{folders[0] / METRICS}: no step says {metric!r:.60}{others}")
    values = np.array([[own[step] for step in steps] for own in told], dtype=np.float64)
    smooth = np.stack([running_mean(values_T, window) for values_T in values])
    return Line(steps=np.array(steps, dtype=np.float64), smooth=smooth)


def values_of(folder: Path, metric: str) -> dict[int, float]:
    """By step, of those that say it."""
    return {line["step"]: line[metric] for line in read_metrics(folder / METRICS) if metric in line}


def running_mean(values_T: Floats, window: int) -> Floats:
    """Each with the mean of itself and up to `window` - 1 before it."""
    total = np.concatenate([[0.0], np.cumsum(values_T)])
    last = np.arange(1, len(values_T) + 1)
    first = np.maximum(0, last - window)
    return np.asarray((total[last] - total[first]) / (last - first))


def curves_svg(panels: Mapping[str, Mapping[str, Line]]) -> str:
    """A panel for each title, a line for each name: the mean over seeds, and from the least to the most of them."""
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    with rc_context({"svg.hashsalt": SALT, "svg.fonttype": "none", "text.parse_math": False}):
        figure = Figure(figsize=(4.2 * len(panels), 3.2), layout="constrained")
        for axes, (title, lines) in zip(figure.subplots(1, len(panels), squeeze=False)[0], panels.items(), strict=True):
            draw(axes, title, lines)
        text = StringIO()
        figure.savefig(text, format="svg", metadata={"Date": None})
    return text.getvalue()


def draw(axes: Any, title: str, lines: Mapping[str, Line]) -> None:
    for name, line in lines.items():
        (drawn,) = axes.plot(line.steps, line.mean, label=name, linewidth=1.4)
        spread = line.smooth.min(axis=0), line.smooth.max(axis=0)
        axes.fill_between(line.steps, *spread, color=drawn.get_color(), alpha=0.15, linewidth=0)
    axes.set_title(title, fontsize=9)
    axes.set_xlabel("step", fontsize=8)
    axes.tick_params(labelsize=7)
    axes.legend(fontsize=7)
