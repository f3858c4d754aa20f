"""Comparisons of metrics over whole runs: a ratio or a difference of two means over all steps, seed by seed.

    ratio       scale * mean over steps of ours / mean over steps of theirs
    difference  scale * mean over steps of ours - mean over steps of theirs

The interval is Student's over seeds; of one seed nothing is bounded.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import inf
from pathlib import Path
from statistics import fmean
from typing import Literal, get_args

from rlx.base.console import one_line
from rlx.base.limits import LARGEST, MistakeError, refuse, within
from rlx.base.table import Table
from rlx.evaluation.intervals import mean_interval, mean_of
from rlx.evaluation.intervals import within as cut
from rlx.evaluation.tables import Column, estimate_cell
from rlx.runs.folder import METRICS
from rlx.runs.form import NUMBER, STRING, made
from rlx.runs.form import in_order as both
from rlx.runs.summary import Estimate
from rlx.runs.track import require_numbers
from rlx.view.report.curves import possible_values

Kind = Literal["ratio", "difference"]
PLAIN = Column(stat="", title="", digits=3)


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """Two metrics of two runs, each as `RUN METRIC`."""

    operands: tuple[str, str]
    kind: Kind = "ratio"
    scale: float = 1.0
    """Factor of the first."""

    def __post_init__(self) -> None:
        within(-LARGEST, LARGEST, scale=self.scale)
        if self.kind not in get_args(Kind):
            refuse("kind", one_line(self.kind, 60), f"one of {', '.join(get_args(Kind))}")
        for operand in self.operands:
            if len(operand.split(" ")) != 2:
                refuse("operands", one_line(operand, 60), "a run and a metric, such as `carl batch/turns`")

    @property
    def runs(self) -> tuple[str, ...]:
        """Return the names of the runs."""
        return tuple(operand.split(" ")[0] for operand in self.operands)

    def figure(self, runs: Mapping[str, Sequence[Path]]) -> Estimate:
        """Return the comparison over the seeds."""
        names = (operand.split(" ") for operand in self.operands)
        ours, theirs = (means_of(runs[name], metric) for name, metric in names)
        num = min(len(ours), len(theirs))
        interval = mean_interval(mean_of([self.value(*both) for both in zip(ours[:num], theirs[:num], strict=True)]))
        return cut(interval, *self.possible)

    @property
    def possible(self) -> tuple[float, float]:
        """Return the least and the largest possible value."""
        (least, most), (least_other, most_other) = (possible_values(operand.split(" ")[1]) for operand in self.operands)
        if self.kind == "ratio":
            return (0.0, inf) if min(least, least_other, self.scale) >= 0 else (-inf, inf)
        ends = sorted((self.scale * least, self.scale * most)) if self.scale else [0.0, 0.0]
        return ends[0] - most_other, ends[1] - least_other

    def value(self, ours: float, theirs: float) -> float:
        """Return the comparison of two means."""
        if self.kind == "difference":
            return self.scale * ours - theirs
        if not theirs:
            raise MistakeError(f"{one_line(self.operands[1], 60)}: its mean is 0, so nothing has a ratio to it")
        return self.scale * ours / theirs


def means_of(folders: Sequence[Path], metric: str) -> list[float]:
    """Return the mean over the steps of each run."""
    return [fmean(require_numbers(folder / METRICS, metric).values()) for folder in folders]


def comparison_table(comparisons: Mapping[str, Comparison], figures: Mapping[str, Mapping[str, Estimate]]) -> Table:
    """Return a row for each comparison."""
    rows = tuple(
        (
            name,
            *comparison.operands,
            f"{comparison.scale:g}",
            comparison.kind,
            estimate_cell(figures[name][f"eval/{comparison.kind}"], PLAIN),
        )
        for name, comparison in comparisons.items()
    )
    header = ("comparison", "of", "with", "scale", "kind", "measured")
    return Table(title="Means over all steps [95% interval over seeds]", header=header, rows=rows)


COMPARISON = made(Comparison, operands=both(STRING, STRING), kind=STRING.unless("ratio"), scale=NUMBER.unless(1.0))
