"""Run folders as they are: what is intact is read, and what is not is named."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeVar

from rlx.console import format_count, one_line
from rlx.evaluate.compare import summary_in
from rlx.limits import MistakeError
from rlx.record.folder import (
    CHECKPOINTS,
    CONFIG,
    EVALUATIONS,
    LOGS,
    METRICS,
    RANKS,
    SUMMARY,
    TRAJECTORIES,
    FolderError,
    flatten,
    read_config,
)
from rlx.record.series import Columns, Series, read_columns
from rlx.record.store import split_numbers
from rlx.runs.summary import Summary, SummaryError

T = TypeVar("T")

INSIDE = frozenset({CHECKPOINTS, TRAJECTORIES, EVALUATIONS, RANKS, LOGS, "wandb"})
"""Folders of a run, in which no other run is looked for."""
MARKS = (CONFIG, METRICS, SUMMARY)
"""Files of which a run's folder has one at least."""


NO_CONFIG: dict[str, Any] = {}
NO_COLUMNS = Columns(series={})


class ReportError(MistakeError):
    """A report that cannot be made; the message is one line with its place."""


@dataclass(frozen=True, kw_only=True)
class Damage:
    """Something that could not be read."""

    place: str
    what: str


@dataclass(frozen=True, kw_only=True)
class RunRecord:
    """Content of a run's folder."""

    name: str
    """Path below the folder that all reported runs share."""
    folder: Path
    config: Mapping[str, Any] = field(default_factory=dict)
    """Flat configuration; empty where it cannot be read."""
    summary: Summary | None = None
    """Summary of the run; None before its end, or where it cannot be read."""
    columns: Columns = NO_COLUMNS
    damage: tuple[Damage, ...] = ()

    @property
    def series(self) -> Mapping[str, Series]:
        return self.columns.series

    @property
    def has_figures(self) -> bool:
        return self.summary is not None and bool(self.summary.metrics)

    @property
    def status(self) -> str:
        """Return how the run ended."""
        return self.summary.status if self.summary is not None else "not ended"


def read_runs(folders: Sequence[Path], wanted: Callable[[str], bool]) -> list[RunRecord]:
    """Read the runs at or below these folders; ReportError where there is none."""
    found = list(dict.fromkeys(run for folder in folders for run in runs_below(folder)))
    if not found:
        raise ReportError(f"{one_line(str(folders[0]))} holds no run: give the folder of a run, or one above runs")
    return [read_record(folder, name, wanted) for folder, name in zip(found, names_of(found), strict=True)]


def runs_below(folder: Path) -> Iterator[Path]:
    """Yield the run that a folder is, or those below it, 2 before 10."""
    if is_run(folder):
        yield folder
        return
    below = [Path(entry.path) for entry in os.scandir(folder) if entry.is_dir(follow_symlinks=False)]
    for one in sorted(below, key=lambda path: split_numbers(path.name)):
        if not one.name.startswith(".") and one.name not in INSIDE:
            yield from runs_below(one)


def is_run(folder: Path) -> bool:
    """Tell whether a folder is a run's: a reproduction's has figures of its own, and no configuration."""
    return any(os.path.lexists(folder / name) for name in MARKS)


def names_of(folders: Sequence[Path]) -> list[str]:
    """Return the fewest last parts of each path that tell the runs apart; a number has the name before it."""
    whole = [Path(os.path.abspath(folder)).parts[1:] for folder in folders]
    least = 2 if any(parts[-1].isdecimal() for parts in whole) else 1
    most = max(map(len, whole))
    enough = (num for num in range(least, most) if len({parts[-num:] for parts in whole}) == len(whole))
    num = next(enough, most)
    return ["/".join(parts[-num:]) for parts in whole]


def read_record(folder: Path, name: str, wanted: Callable[[str], bool]) -> RunRecord:
    """Read what is intact in a run's folder."""
    record = RunRecord(name=name, folder=folder)
    config, bad_config = attempt(lambda: flatten(read_config(folder)), NO_CONFIG, record, CONFIG)
    summary, bad_summary = attempt(lambda: summary_in(folder), None, record, SUMMARY)
    columns, bad_metrics = attempt(lambda: read_columns(folder / METRICS, wanted), record.columns, record, METRICS)
    damage = (*bad_config, *bad_summary, *bad_metrics, *gaps_of(columns, f"{name}/{METRICS}"))
    return replace(record, config=config, summary=summary, columns=columns, damage=damage)


UNREADABLE = (FolderError, SummaryError, MistakeError, OSError, ValueError, RecursionError)
"""Errors of a file that cannot be read."""


def attempt(read: Callable[[], T], instead: T, record: RunRecord, file: str) -> tuple[T, tuple[Damage, ...]]:
    """Return what is read, or `instead` with the damage."""
    try:
        return read(), ()
    except UNREADABLE as error:
        return instead, (Damage(place=f"{record.name}/{file}", what=reason_of(error, record)),)


def reason_of(error: Exception, record: RunRecord) -> str:
    """Return an error's reason with the run's name in place of its folder, whose place no report depends on."""
    said = str(error).replace(str(record.folder), record.name)
    return one_line(said.removeprefix(f"{record.name}/").partition("; restore it")[0], 200)


def gaps_of(columns: Columns, place: str) -> tuple[Damage, ...]:
    """Name the lines of metrics.jsonl that are torn or missing."""
    torn = f"{format_count(columns.num_torn, 'line')} cannot be read" if columns.num_torn else ""
    missing = f"{columns.num_missing:,} of {columns.last:,} steps have no line" if columns.num_missing else ""
    return tuple(Damage(place=place, what=what) for what in (torn, missing) if what)
