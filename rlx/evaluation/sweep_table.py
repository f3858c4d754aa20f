"""A table across the runs of a sweep: the configuration keys in which they differ, and what came of each.

Runs that differ in their seeds alone share a row: the mean of their evaluations, with intervals over problems.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rlx.base.console import format_count
from rlx.base.table import Table
from rlx.evaluation.columns import chosen_columns
from rlx.evaluation.compare import read_ks, scores_of
from rlx.evaluation.figures import mean_ratios, name_figures
from rlx.evaluation.passk import UnpairedError, estimates
from rlx.evaluation.sweep import config_cell, differing_keys, is_alike, short_keys
from rlx.evaluation.tables import Column, estimate_cell, pass_columns, use_columns
from rlx.runs.files import budgets_of
from rlx.runs.run import StoredRun
from rlx.runs.summary import Estimate, plain
from rlx.runs.track import is_number

Figures = Mapping[str, Estimate]
LAST = 10
"""Steps that a training metric is averaged over."""


@dataclass(frozen=True, kw_only=True)
class Row:
    """Row of the table: a single run, or runs that differ only in their seeds."""

    runs: tuple[StoredRun, ...]
    figures: Figures

    @property
    def name(self) -> str:
        return ", ".join(run.name for run in self.runs)

    @property
    def status(self) -> str:
        """Return how the runs ended: one word where all ended so."""
        states = [run.state for run in self.runs]
        kinds = dict.fromkeys(states)
        return states[0] if len(kinds) == 1 else ", ".join(f"{states.count(kind)} {kind}" for kind in kinds)


def sweep_table(runs: Sequence[StoredRun], columns: str = "", *, each: bool = False) -> Table:
    """Return a row per choice of keys, or per run with `each`: name, differing keys, status unless all runs
    finished, and figures."""
    rows = rows_of(runs, each=each)
    differing = differing_keys([run.settings for run in runs])
    keys = [key for key in differing if len(rows) == len(runs) or not is_alike(key)]
    table_columns = chosen_columns(columns, (name for row in rows for name in row.figures)) if columns else usual(rows)
    finished = all(row.status == "finished" for row in rows)
    cells = [
        (
            row.name,
            *(config_cell(row.runs[0].settings.get(key)) for key in keys),
            *(() if finished else (row.status,)),
            *(estimate_cell(figure_of(row, column), column) for column in table_columns),
        )
        for row in rows
    ]
    header = ("run", *short_keys(keys), *(() if finished else ("status",)), *(column.title for column in table_columns))
    means = "" if len(rows) == len(runs) else f", {format_count(len(rows), 'row')} of means over seeds"
    return Table(title=f"{format_count(len(runs), 'run')}{means}", header=header, rows=tuple(cells))


def rows_of(runs: Sequence[StoredRun], *, each: bool) -> list[Row]:
    """Put runs that differ in their seeds alone together."""
    keys = [key for key in differing_keys([run.settings for run in runs]) if not is_alike(key)]
    groups: dict[object, list[StoredRun]] = {}
    for number, run in enumerate(runs):
        choice = number if each else tuple(config_cell(run.settings.get(key)) for key in keys)
        groups.setdefault(choice, []).append(run)
    return [Row(runs=tuple(group), figures=row_figures(group)) for group in groups.values()]


def row_figures(runs: Sequence[StoredRun]) -> Figures:
    """Return the figures of a run, or the means of several: of evaluations with intervals over problems, of all other
    figures and of training's last steps without."""
    ended = [run for run in runs if run.summary is not None and run.summary.metrics]
    tables = [{**last_steps(run), **figures(run)} for run in ended or runs]
    if len(tables) == 1:
        return tables[0]
    names = [name for name in tables[0] if all(name in table for table in tables)]
    means = {name: sum(table[name].value for table in tables) / len(tables) for name in names}
    return {
        **{name: Estimate(value=mean, low=mean, high=mean) for name, mean in means.items()},
        **mean_evaluation(ended),
    }


def mean_evaluation(runs: Sequence[StoredRun]) -> Figures:
    """Return the means of the stored evaluations; none where they are not all there, or not of the same problems."""
    try:
        (rounds, *_) = {tuple(budgets_of(run.folder)): None for run in runs}
        if len(rounds) == 0 or any(tuple(budgets_of(run.folder)) != rounds for run in runs):
            return {}
        name = first_budget(runs[0], rounds)
        scores = [scores_of(run, f"eval-{name}") for run in runs]
        return name_figures("eval", estimates(mean_ratios(scores, read_ks(runs[0]))))
    except (UnpairedError, ValueError):
        return {}


def first_budget(run: StoredRun, budgets: Sequence[str]) -> str:
    """Return the limit of turns that the main figures are of."""
    limits = run.settings.get("evaluate.max_rounds")
    first = str(limits[0]) if isinstance(limits, list) and limits else budgets[0]
    return first if first in budgets else budgets[0]


def last_steps(run: StoredRun) -> Figures:
    """Return the means of training's metrics over the last steps."""
    lines = run.last_metrics[-LAST:]
    names = dict.fromkeys(name for line in lines for name in line if re.search(r"[a-z]/", name))
    values_of = {name: [float(line[name]) for line in lines if is_number(line.get(name))] for name in names}
    means = {name: sum(values) / len(values) for name, values in values_of.items() if values}
    return {name: Estimate(value=mean, low=mean, high=mean) for name, mean in means.items()}


def usual(rows: Sequence[Row]) -> list[Column]:
    """Return the columns of pass@k and of the use of tools that any row has."""
    candidates = (
        *pass_columns(name for row in rows for name in row.figures),
        *use_columns(row.figures for row in rows),
    )
    return [column for column in candidates if any(f"eval/{column.stat}" in row.figures for row in rows)]


def figure_of(row: Row, column: Column) -> Estimate | None:
    return row.figures.get(f"eval/{column.stat}") or row.figures.get(column.stat)


def sweep_values(runs: Sequence[StoredRun]) -> list[dict[str, Any]]:
    """Return a JSON object per run: differing keys, status, and figures by full name."""
    keys = differing_keys([run.settings for run in runs])
    return [
        {
            "run": run.name,
            "config": {key: run.settings.get(key) for key in keys},
            "status": run.state,
            "metrics": plain(figures(run)),
        }
        for run in runs
    ]


def figures(run: StoredRun) -> Figures:
    return run.summary.metrics if run.summary else {}
