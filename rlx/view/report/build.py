"""The whole report of some runs, as a document."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from rlx.base.console import format_count
from rlx.base.regular import write_aside
from rlx.base.table import Table
from rlx.runs.folder import make_folder
from rlx.view.report.card import card_section
from rlx.view.report.cohorts import Cohort, cohorts_of
from rlx.view.report.document import HTML, MARKDOWN, Document, Section, pictures_in, to_report_markdown
from rlx.view.report.page import to_html
from rlx.view.report.paper import Paper, paper_section, published_of
from rlx.view.report.results import results_section
from rlx.view.report.runs import RunRecord
from rlx.view.report.settings import settings_section
from rlx.view.report.training import time_section, training_section

NO_PICTURES = "Without pictures: matplotlib is not installed (extra plots)."


def report_of(
    title: str,
    records: Sequence[RunRecord],
    *,
    paper: Paper | None = None,
    first: Sequence[Section] = (),
    draws: bool = True,
) -> Document:
    """Return the report of runs; `first` are the sections of its caller."""
    cohorts = cohorts_of(records)
    published = {} if paper is None else published_of(paper, cohorts)
    sections = [
        damage_section(cohorts),
        *first,
        results_section(cohorts, published, draws),
        *([] if paper is None else [paper_section(paper, cohorts)]),
        training_section(cohorts, draws),
        time_section(cohorts, draws),
        settings_section(cohorts),
        card_section(cohorts),
    ]
    return Document(title=title, lead=tuple(lead_of(cohorts, draws)), sections=tuple(sections))


def lead_of(cohorts: Sequence[Cohort], draws: bool) -> list[str]:
    """Return the sentences below the title."""
    runs = [run for cohort in cohorts for run in cohort.runs]
    open_runs = [run.name for run in runs if run.state != "finished"]
    shared = f" in {format_count(len(cohorts), 'row')}: those that differ in their seeds alone share one"
    lines = [f"{format_count(len(runs), 'run')}{shared if len(cohorts) < len(runs) else ''}.", INTERVALS]
    lines += [f"Not finished: {', '.join(open_runs[:10])}{' …' if len(open_runs) > 10 else ''}."] if open_runs else []
    return lines + ([] if draws else [NO_PICTURES])


INTERVALS = (
    "Intervals are 95% and over problems: other problems of the same kind would give another figure. "
    "Where a title says over seeds, the problems are these, and other seeds would give another figure. "
    "A mean over seeds is of these seeds (docs/intervals.md)."
)


def damage_section(cohorts: Sequence[Cohort]) -> Section:
    """Name everything that could not be read; the rest of the report is of what is intact."""
    damage = [entry for cohort in cohorts for run in cohort.runs for entry in run.damage]
    damage += [entry for cohort in cohorts for entry in cohort.damage]
    rows = tuple((entry.place, entry.reason) for entry in damage)
    table = Table(title="What could not be read or measured", header=("place", "reason"), rows=rows)
    return Section(title="Damage", blocks=(table,))


def report_files(document: Document) -> dict[str, str]:
    """Return the text of each file of a report, by its name."""
    pictures = {
        f"{picture.name}.svg": picture.svg for section in document.filled for picture in pictures_in(section.blocks)
    }
    return {HTML: to_html(document), MARKDOWN: to_report_markdown(document), **pictures}


def write_report(document: Document, folder: Path) -> list[Path]:
    """Write the files of a report; return their paths."""
    make_folder(folder)
    files: Mapping[str, str] = report_files(document)
    for name, text in files.items():
        write_aside(folder / name, text)
    return [folder / name for name in files]
