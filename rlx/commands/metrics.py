"""`rlx metrics`: the metrics of runs as CSV in long form, one line for each number of each step."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator, Sequence
from pathlib import Path

from rlx.base.console import one_line
from rlx.base.limits import MistakeError, near
from rlx.runs.find import runs_below
from rlx.runs.folder import METRICS
from rlx.runs.track import is_number, texts_by_step

HEADER = ("run", "step", "metric", "value")
FORMULA = ("=", "+", "-", "@", "\uff1d", "\uff0b", "\uff0d", "\uff20")
"""First characters of a cell that a spreadsheet would compute, of full width too."""
Row = tuple[str, int, str, float]


class MetricsError(MistakeError):
    """Error for metrics that no run has; the message is one line."""


def metric_rows(folders: Sequence[Path], names: Sequence[str] = ()) -> Iterator[Row]:
    """Yield the numbers of every run below the folders, of all metrics or of the named ones. The last line of a step
    counts, and a step that a resumed run plays again stands once."""
    runs = list(dict.fromkeys(run for folder in folders for run in runs_below(folder) if (run / METRICS).is_file()))
    if not runs:
        raise MetricsError(f"{', '.join(map(str, folders))}: no run has a {METRICS} there")
    metric_names: set[str] = set()
    for run in runs:
        texts = texts_by_step(run / METRICS)
        for step in sorted(texts):
            line = json.loads(texts[step])
            metric_names.update(line)
            yield from (
                (str(run), step, name, float(line[name]))
                for name in names or sorted(line)
                if name != "step" and is_number(line.get(name))
            )
    missing = [name for name in names if name not in metric_names]
    if missing:
        raise MetricsError(f"no run has the metric {missing[0]!r:.60}{near(missing[0], metric_names - {'step'})}")


def csv_text(rows: Iterator[Row]) -> str:
    """Return the rows as CSV whose floats read back as the same floats."""
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(HEADER)
    writer.writerows((cell(run), step, cell(name), repr(value)) for run, step, name, value in rows)
    return file.getvalue()


def cell(text: str) -> str:
    """Return text on one line that no spreadsheet computes."""
    line = one_line(text)
    return f"'{line}" if line.startswith(FORMULA) else line
