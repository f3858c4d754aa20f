"""`rlx report`: write the report of some runs."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from rlx.base.console import format_count, one_line
from rlx.base.regular import inside
from rlx.hardware.packages import lacks
from rlx.runs.find import is_run
from rlx.view.report.build import report_of, write_report
from rlx.view.report.document import Document
from rlx.view.report.paper import Paper
from rlx.view.report.runs import RunRecord, read_runs
from rlx.view.report.training import is_wanted

FOLDER = "report"
UNFIT = re.compile(r"[^\w.-]+")
"""Characters of a run's name that the name of a folder does without."""


def write_runs(folders: Sequence[Path], paper: Paper | None, folder: Path | None) -> str:
    """Write the report of the runs at or below these folders; return what to say of it."""
    records = read_runs(folders, is_wanted)
    title = title_of(folders)
    document = report_of(title, records, paper=paper, draws=not lacks("plots"))
    files = write_report(document, folder or default_folder(folders))
    return "\n".join([*damage_lines(document, records), *map(str, files)])


def title_of(folders: Sequence[Path]) -> str:
    """Return the title of a report: the names of its folders."""
    names = [one_line(name_of(folder), 60) for folder in folders]
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")


def name_of(folder: Path) -> str:
    """Return a folder's name; a number has the name before it."""
    path = folder.absolute()
    return f"{path.parent.name}/{path.name}" if path.name.isdecimal() else path.name


def default_folder(folders: Sequence[Path]) -> Path:
    """Return the place of a report: in the only run, or here by the first folder's name."""
    if len(folders) == 1 and is_run(folders[0]):
        return inside(folders[0], FOLDER)
    name = UNFIT.sub("-", name_of(folders[0])).strip("-.")[:80] or "runs"
    return Path(f"{FOLDER}-{name}")


def damage_lines(document: Document, records: Sequence[RunRecord]) -> list[str]:
    """Say how much could not be read; the report names it."""
    num = sum(len(record.damage) for record in records)
    return [f"{format_count(num, 'file')} could not be read whole: see Damage in the report"] if num else []
