"""`rlx status`: the runs below a folder. It imports nothing heavy and changes nothing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from rlx.base.console import duration, format_count, one_line
from rlx.base.table import Table
from rlx.runs.run import StoredRun, read_runs


def status_values(folder: Path) -> list[dict[str, Any]]:
    """Return the runs as JSON. `seconds`: of one step; `left`: until the last step."""
    names = ("state", "step", "steps", "seconds", "job", "where", "left")
    return [{"folder": str(run.folder)} | {name: getattr(run, name) for name in names} for run in read_runs([folder])]


def status_table(folder: Path) -> Table:
    """Return a row per run below `folder`, or of it, with the columns that any run fills."""
    header = ("run", "state", "step", "rate", "left", "job", "where")
    rows = [row(run, folder) for run in read_runs([folder])]
    used = [column for column, name in enumerate(header) if column < 3 or any(cells[column] for cells in rows)]
    cells = tuple(tuple(cells[column] for column in used) for cells in rows)
    title = f"{format_count(len(rows), 'run')} in {one_line(str(folder))}"
    return Table(title=title, header=tuple(header[column] for column in used), rows=cells)


def row(run: StoredRun, folder: Path) -> tuple[str, ...]:
    name = run.folder.relative_to(folder).as_posix() if run.folder != folder else run.folder.name
    steps = "" if run.step is None else f"{run.step}/{'?' if run.steps is None else run.steps}"
    rate = f"{1 / run.seconds:.3g} steps/s" if run.seconds else ""
    left = "" if run.left is None else duration(run.left)
    return tuple(one_line(cell, 80) for cell in (name, run.state, steps, rate, left, run.job, run.where))
