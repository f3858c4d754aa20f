"""Value of a run for a sweeper that optimises: a metric, by its name.

An evaluation's metric (`eval/reward`, `eval/pass@1`, under another budget `eval@5/reward`) is that of the final policy;
a training one (`success/mean`) is its mean over the last ten steps, since one step's is noisy. A part of a mixture has
its name before its own (`first/success/mean`, `eval/first/pass@1`). Several names are several objectives, in order.
"""

from __future__ import annotations

import math
from pathlib import Path

from rlx.base.limits import near
from rlx.plan.metric_names import FREE
from rlx.plan.objective import ObjectiveError, names_of
from rlx.run.run import Run
from rlx.runs.folder import METRICS, SUMMARY
from rlx.runs.summary import Summary
from rlx.runs.track import read_metrics

LAST = 10
"""Steps that a training metric is averaged over."""


def value_of(run: Run, summary: Summary) -> float | list[float] | None:
    """Return a number for the sweeper, or one for each objective; None without an objective."""
    values = [value_named(name, run.folder, summary) for name in names_of(run)]
    return values[0] if isinstance(run.objective, str) else values or None


def value_named(name: str, folder: Path, summary: Summary) -> float:
    lines = read_metrics(folder / METRICS)[-LAST:]
    if name in summary.metrics:
        value, place = summary.metrics[name].value, SUMMARY
    else:
        last = [float(line[name]) for line in lines if line.get(name) is not None]
        value, place = sum(last) / len(last) if last else math.nan, METRICS
    if not math.isfinite(value):
        metric_names = {*summary.metrics, *(key for line in lines for key in line)}
        hint = near(name, metric_names) if FREE.search(name) and name not in metric_names else ""
        raise ObjectiveError(f"objective={name} has no value in {folder / place}{hint}")
    return value
