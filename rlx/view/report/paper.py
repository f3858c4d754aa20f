"""Published values beside what was measured, and a paper's settings beside those of the runs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import isfinite
from typing import Any

from rlx.base.table import MISSING, Table
from rlx.evaluation.sweep import config_cell
from rlx.evaluation.tables import Published, estimate_cell, number_cell
from rlx.runs.summary import Estimate
from rlx.view.report.cohorts import Cohort, Figures
from rlx.view.report.document import Block, Folded, Notes, Section
from rlx.view.report.panels import axis_of
from rlx.view.report.settings import cell_of

NOT_PUBLISHED = "not published"
"""Start of the source of a setting that neither a paper nor its code states."""


@dataclass(frozen=True, kw_only=True)
class PaperSetting:
    """A setting of a paper."""

    key: str
    value: Any
    source: str
    reason: str = ""
    """Reason for another value in the preset."""


@dataclass(frozen=True, kw_only=True)
class Paper:
    """Values of a paper."""

    name: str
    source: str
    rows: Mapping[str, str] = field(default_factory=dict)
    """Run and evaluation of each row, such as `grpo eval-9`."""
    published: Mapping[str, Mapping[str, Sequence[float]]] = field(default_factory=dict)
    """Figures `stat` of rows, those of all agents that the paper has for a row."""
    settings: tuple[PaperSetting, ...] = ()


def paper_section(paper: Paper, cohorts: Sequence[Cohort]) -> Section:
    """Return the tables beside the paper's values."""
    beside = beside_table(paper, cohorts)
    settings = settings_table(paper, cohorts)
    unmatched = "" if beside.rows or not paper.published else "No run here is one of the paper's rows by its name."
    differ = Table(title="Settings that differ from the paper's", header=settings.header, rows=differing(settings))
    blocks: list[Block] = [
        Notes(lines=tuple(line for line in (f"Published: {paper.source}", unmatched) if line)),
        beside,
        differ,
        Folded(title="All settings of the paper", blocks=(settings,)),
    ]
    return Section(title="Beside the paper", blocks=tuple(blocks))


def matches(paper: Paper, cohorts: Sequence[Cohort]) -> Iterator[tuple[str, str, Figures]]:
    """Yield each published row with the cohort of its run and the figures of its evaluation. A single cohort of another
    name stands beside every row."""
    for row, place in paper.rows.items():
        run, _, evaluation = place.partition(" ")
        for cohort in cohorts:
            if row not in paper.published or not (cohort.name == run or len(cohorts) == 1):
                continue
            figures = figures_at(cohort, evaluation, exactly=cohort.name == run)
            if figures is not None:
                yield row, cohort.name, figures


def figures_at(cohort: Cohort, evaluation: str, *, exactly: bool) -> Figures | None:
    """Return the figures of an evaluation such as `eval-9`; of a run with other limits those of its own first limit,
    unless `exactly`."""
    word, _, limit = evaluation.partition("-")
    named = cohort.figures.get(f"{word}@{limit}")
    if named is not None or word not in cohort.figures:
        return named
    return cohort.figures[word] if not exactly or not limit or is_main(cohort, limit) else None


def is_main(cohort: Cohort, limit: str) -> bool:
    """Tell whether the figures without a limit in their name are of this one: a summary names all other limits."""
    limits = cohort.runs[0].settings.get("evaluate.max_rounds")
    return not (isinstance(limits, list) and limits) or str(limits[0]) == limit


def beside_table(paper: Paper, cohorts: Sequence[Cohort]) -> Table:
    """Return the measured and the published figures, and whether the interval covers the latter."""
    rows = [
        (agent_name(row, index, values), name, *beside_cells(stat, figures[f"eval/{stat}"], value))
        for row, name, figures in matches(paper, cohorts)
        for stat, values in paper.published[row].items()
        if f"eval/{stat}" in figures
        for index, value in enumerate(values, start=1)
    ]
    header = ("paper's row", "runs here", "figure", "measured", "paper", "difference", "interval covers it")
    return Table(title="Published values beside those measured [95% interval]", header=header, rows=tuple(rows))


def agent_name(row: str, index: int, values: Sequence[float]) -> str:
    """Name one of the agents that the paper has for a row."""
    return row if len(values) == 1 else f"{row} (agent {index} of {len(values)})"


def beside_cells(stat: str, measured: Estimate, paper: float) -> tuple[str, ...]:
    """Return the cells of a figure."""
    column = axis_of(stat)
    bounded = isfinite(measured.low) and isfinite(measured.high)
    covers = "yes" if measured.low <= paper <= measured.high else "no"
    gap = number_cell(measured.value - paper, column, signed=True)
    cells = (column.title, estimate_cell(measured, column), number_cell(paper, column), gap)
    return (*cells, covers if bounded else MISSING)


def published_of(paper: Paper, cohorts: Sequence[Cohort]) -> Published:
    """Return the published figures `eval/stat` of the cohorts that are trained rows of the paper by their names."""
    published = {
        cohort.name: paper.published[row]
        for cohort in cohorts
        for row, place in paper.rows.items()
        if row in paper.published and is_trained(cohort, *place.partition(" ")[::2])
    }
    return {name: {f"eval/{stat}": value for stat, value in figures.items()} for name, figures in published.items()}


def is_trained(cohort: Cohort, run: str, evaluation: str) -> bool:
    """Tell whether an evaluation of a run is the cohort's trained policy at its first limit of turns."""
    ours = cohort.figures.get("eval")
    return cohort.name == run and ours is not None and figures_at(cohort, evaluation, exactly=True) is ours


def settings_table(paper: Paper, cohorts: Sequence[Cohort]) -> Table:
    """Return the paper's settings beside those of the runs."""
    configured_cohorts = [cohort for cohort in cohorts if cohort.runs[0].settings]
    rows = [
        (
            setting.key,
            paper_cell(setting),
            *(cell_of(cohort, setting.key) for cohort in configured_cohorts),
            source_cell(setting),
        )
        for setting in paper.settings
    ]
    header = ("setting", "paper", *(cohort.name for cohort in configured_cohorts), "source")
    return Table(title="Settings of the paper", header=header, rows=tuple(rows) if configured_cohorts else ())


def paper_cell(setting: PaperSetting) -> str:
    return MISSING if setting.source.startswith(NOT_PUBLISHED) else config_cell(plain(setting.value))


def source_cell(setting: PaperSetting) -> str:
    return f"{setting.source}. The preset differs: {setting.reason}" if setting.reason else setting.source


def differing(settings: Table) -> tuple[tuple[str, ...], ...]:
    """Return the rows in which a run has another value than the paper."""
    return tuple(
        row for row in settings.rows if row[1] != MISSING and any(not is_same(row[1], cell) for cell in row[2:-1])
    )


def is_same(cell: str, other: str) -> bool:
    """Tell whether two cells say the same value: 1e-5 and 0.00001 do."""
    try:
        return float(cell) == float(other)
    except ValueError:
        return cell == other


def plain(value: Any) -> Any:
    """Return a number that YAML reads as text (1e-5) as a number."""
    try:
        return float(value) if isinstance(value, str) else value
    except ValueError:
        return value
