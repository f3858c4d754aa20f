"""What a run is worth to a sweeper that optimises: the value of a metric, by its name.

An evaluation's metric (`eval/reward`, `eval/pass@1`, under another budget `eval@5/reward`) is that of the final policy;
a training one (`success/mean`) is its mean over the last ten steps, since one step's is noisy. Several names are
several objectives, in their order.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from pathlib import Path

from rlx.config.check import near
from rlx.evaluate.figures import Score, figures
from rlx.evaluate.summary import Summary
from rlx.record.folder import METRICS, SUMMARY
from rlx.rollout.measure import measure
from rlx.run.run import Run

LAST = 10
"""Steps that a training metric is averaged over."""


class ObjectiveError(ValueError):
    """An objective that the run does not have: one line that says which it has."""

    exit_code = 2


def names_of(run: Run) -> list[str]:
    """The objectives asked for, as a list."""
    asked = run.objective
    return [] if asked is None else [asked] if isinstance(asked, str) else list(asked)


def check_objective(run: Run) -> None:
    """Refuse a name that no metric of the run will have."""
    if run.objective is not None and not names_of(run):
        raise ObjectiveError("objective=[]: expected the name of a metric, a list of names, or null")
    known = metrics_of(run) if run.objective is not None else []
    for name in names_of(run):
        if name not in known:
            raise ObjectiveError(f"objective={name}: the run has no such metric{near(name, known)}")


def metrics_of(run: Run) -> list[str]:
    """The names that a run's evaluation and its rollouts give, of which none depends on the clock."""
    settings = run.evaluate
    blank = [Score(task="", num_samples=settings.num_samples, num_correct=0)]
    nouns = ["eval", *(f"eval@{rounds}" for rounds in settings.max_rounds[1:])]
    judged = [name for noun in nouns for name in figures(blank, ks=settings.ks, noun=noun, num_resamples=1)]
    return [*judged, *(measure([], run.env) if run.steps else {})]


def value_of(run: Run, summary: Summary) -> float | list[float] | None:
    """What the sweeper gets: a number, or one for each objective; None where none was asked for."""
    found = [value_named(name, run.folder, summary) for name in names_of(run)]
    return found[0] if isinstance(run.objective, str) else found or None


def value_named(name: str, folder: Path, summary: Summary) -> float:
    if name in summary.metrics:
        value, place = summary.metrics[name].value, SUMMARY
    else:
        last = last_values(folder / METRICS, name)
        value, place = sum(last) / len(last) if last else math.nan, METRICS
    if not math.isfinite(value):
        raise ObjectiveError(f"objective={name} has no value in {folder / place}")
    return value


def last_values(path: Path, name: str) -> Sequence[float]:
    """Of the last steps of a run, as it wrote them down."""
    lines = path.read_text(encoding="utf-8").splitlines() if path.is_file() else []
    return [float(value) for line in lines[-LAST:] if (value := json.loads(line).get(name)) is not None]
