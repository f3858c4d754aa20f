"""Learning curves: a metric of every step, the mean over seeds, for several runs beside each other."""

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
    """Steps that a point is the mean of, itself and those before it."""

    def __post_init__(self) -> None:
        at_least(1, window=self.window)


@dataclass(frozen=True, kw_only=True)
class Line:
    """Of one run."""

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
    """Of the runs in these folders, one a seed, as far as all of them are."""
    values = [steps_of(folder, metric) for folder in folders]
    length = min(map(len, values))
    if not length:
        raise MistakeError(f"{folders[0] / METRICS}: no step says {metric!r:.60}")
    return Line(smooth=np.stack([running_mean(np.asarray(own[:length]), window) for own in values]))


def steps_of(folder: Path, metric: str) -> list[float]:
    return [line[metric] for line in read_metrics(folder / METRICS) if metric in line]


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
        step_T = np.arange(1, line.smooth.shape[1] + 1)
        (drawn,) = axes.plot(step_T, line.mean, label=name, linewidth=1.4)
        spread = line.smooth.min(axis=0), line.smooth.max(axis=0)
        axes.fill_between(step_T, *spread, color=drawn.get_color(), alpha=0.15, linewidth=0)
    axes.set_title(title, fontsize=9)
    axes.set_xlabel("step", fontsize=8)
    axes.tick_params(labelsize=7)
    axes.legend(fontsize=7)
