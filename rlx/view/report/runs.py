"""Runs with their metrics, for a report: intact files are read, and the others are named."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

from rlx.base.console import format_count, one_line
from rlx.base.limits import MistakeError
from rlx.runs import run as stored
from rlx.runs.folder import METRICS
from rlx.runs.run import Damage, StoredRun, attempt
from rlx.runs.series import Columns, Series, read_columns

NO_COLUMNS = Columns(series={})


class ReportError(MistakeError):
    """A report that cannot be made; the message is one line with its place."""


@dataclass(frozen=True, kw_only=True)
class RunRecord(StoredRun):
    """One run with its metrics."""

    columns: Columns = NO_COLUMNS

    @property
    def series(self) -> dict[str, Series]:
        return dict(self.columns.series)

    @property
    def has_figures(self) -> bool:
        return self.summary is not None and bool(self.summary.metrics)


def read_runs(folders: Sequence[Path], wanted: Callable[[str], bool]) -> list[RunRecord]:
    """Read the runs at or below these folders; ReportError where there is none."""
    runs = stored.read_runs(folders, nested=False)
    if not runs:
        raise ReportError(f"{one_line(str(folders[0]))} holds no run: give the folder of a run, or one above runs")
    return [with_metrics(run, wanted) for run in runs]


def with_metrics(run: StoredRun, wanted: Callable[[str], bool]) -> RunRecord:
    """Return a run with the wanted metrics; its damage has places that begin with the run's name."""
    content: dict[str, Any] = {part.name: getattr(run, part.name) for part in fields(run)}
    columns, bad_metrics = attempt(run.folder, METRICS, lambda: read_columns(run.folder / METRICS, wanted))
    damage = (*(part for part in run.damage if part.place != METRICS), *bad_metrics, *gaps_of(columns or NO_COLUMNS))
    places = tuple(replace(part, place=f"{run.name}/{part.place}") for part in damage)
    return RunRecord(**content | {"columns": columns or NO_COLUMNS, "damage": places})


def gaps_of(columns: Columns) -> tuple[Damage, ...]:
    """Name the lines of metrics.jsonl that are torn or missing."""
    torn = f"{format_count(columns.num_torn, 'line')} cannot be read" if columns.num_torn else ""
    missing = f"{columns.num_missing:,} of {columns.last:,} steps have no line" if columns.num_missing else ""
    return tuple(Damage(place=METRICS, reason=text) for text in (torn, missing) if text)
