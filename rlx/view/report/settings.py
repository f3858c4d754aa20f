"""Settings in which the runs differ."""

from __future__ import annotations

from collections.abc import Sequence

from rlx.base.table import MISSING, Table
from rlx.evaluation.sweep import config_cell, short_keys
from rlx.view.report.cohorts import Cohort, unlike_keys
from rlx.view.report.document import Section

MOST_ACROSS = 8
"""Largest number of cohorts that are columns; more of them are rows."""
LONGEST = 80


def settings_section(cohorts: Sequence[Cohort]) -> Section:
    """Return the differences: a row for each setting, or for each cohort where there are many."""
    configured_cohorts = [cohort for cohort in cohorts if cohort.runs[0].settings]
    keys = unlike_keys([cohort.runs[0] for cohort in configured_cohorts])
    named = dict(zip(keys, short_keys(keys), strict=True))
    values = {key: [cell_of(cohort, key) for cohort in configured_cohorts] for key in keys}
    names = tuple(cohort.name for cohort in configured_cohorts)
    title = "Settings in which the runs differ"
    if len(configured_cohorts) <= MOST_ACROSS:
        across = Table(title=title, header=("setting", *names), rows=tuple((key, *values[key]) for key in keys))
        return Section(title="Settings", blocks=(across,))
    rows = tuple((name, *(values[key][index] for key in keys)) for index, name in enumerate(names))
    down = Table(title=title, header=("runs", *named.values()), rows=rows if keys else ())
    return Section(title="Settings", blocks=(down,))


def cell_of(cohort: Cohort, key: str) -> str:
    """Return a cohort's value of a setting."""
    config = cohort.runs[0].settings
    return config_cell(config[key])[:LONGEST] if key in config else MISSING
