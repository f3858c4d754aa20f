"""Measurements of a reproduction beside evaluations and curves: credit, means over steps, criticality.

All of it becomes figures, `eval/stat` by the name that `expected` and claims have for it, tables, files and pictures.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path

from rlx.commands.credit import (
    STATS,
    check_study,
    credit_tables,
    credit_values,
    named_figures,
    study_reports,
    study_settings,
)
from rlx.commands.criticality import (
    criticality_panel,
    criticality_tables,
    draw_criticality,
    policy_figures,
    policy_states,
)
from rlx.evaluate.comparisons import comparison_table
from rlx.evaluate.criticality import FIGURES
from rlx.evaluate.intervals import Estimate
from rlx.evaluate.members import Runs
from rlx.evaluate.reproduction import Reproduction, ReproductionError, credit_row, criticality_row
from rlx.evaluate.tables import Table
from rlx.hardware.packages import lacks
from rlx.limits import near
from rlx.record.folder import write_aside
from rlx.run.run import Run

Figures = dict[str, dict[str, Estimate]]
Say = Callable[[str], None]


@dataclass(frozen=True, kw_only=True)
class Findings:
    """Figures by name, their tables, and the names of the files that hold more."""

    figures: Figures = field(default_factory=dict)
    tables: tuple[Table, ...] = ()
    files: tuple[str, ...] = ()

    def __or__(self, other: Findings) -> Findings:
        return Findings(
            figures=self.figures | other.figures, tables=self.tables + other.tables, files=self.files + other.files
        )


def check_measured(file: Path, what: Reproduction, runs: Mapping[str, Run]) -> None:
    """Refuse what cannot be measured, and expected or claimed figures that it will not have."""
    check_study(what, runs)
    known = {credit_row(name): STATS for name in (what.credit.of if what.credit else ())}
    known |= {name: (one.kind,) for name, one in what.comparisons.items()}
    known |= {criticality_row(one): tuple(FIGURES) for one in (what.criticality.of if what.criticality else ())}
    for name, stats in known.items():
        told = [*what.expected.get(name, ()), *(one.figure for one in what.claims.values() if one.of == name)]
        for stat in (stat for stat in told if stat not in stats):
            raise ReproductionError(f"{file}: {name}: there is no figure {stat!r:.60}{near(stat, stats)}")


def measure_more(what: Reproduction, built: Mapping[str, Run], runs: Runs, folder: Path, say: Say) -> Findings:
    """Measure all of it; files go into the folder."""
    return measured_credit(what, built, folder, say) | compared(what, runs) | measured_policies(what, runs, folder, say)


def measured_credit(what: Reproduction, built: Mapping[str, Run], folder: Path, say: Say) -> Findings:
    """Measure credit in the laboratory."""
    if what.credit is None:
        return Findings()
    reports, settings = study_reports(what.credit, built, say), study_settings(what.credit)
    write_aside(folder / "credit.json", json.dumps(credit_values(0, reports, settings), indent=2) + "\n")
    return Findings(
        figures=named_figures(reports), tables=tuple(credit_tables(0, reports, settings)), files=("credit.json",)
    )


def compared(what: Reproduction, runs: Runs) -> Findings:
    """Compare means over steps."""
    if not what.comparisons:
        return Findings()
    figures = {name: {f"eval/{one.kind}": one.figure(runs)} for name, one in what.comparisons.items()}
    return Findings(figures=figures, tables=(comparison_table(what.comparisons, figures),))


def measured_policies(what: Reproduction, runs: Runs, folder: Path, say: Say) -> Findings:
    """Measure the criticality of turns, and draw it."""
    if what.criticality is None:
        return Findings()
    say(f"criticality of {', '.join(what.criticality.of)}: {what.criticality.tasks} tasks each")
    states = policy_states(what.criticality, runs, folder)
    figures = policy_figures(what.criticality, states)
    write_aside(
        folder / "criticality.json",
        json.dumps({policy: [asdict(state) for state in of] for policy, of in states.items()}) + "\n",
    )
    files = ["criticality.json"]
    if not lacks("plots"):
        panels = [criticality_panel(policy, of) for policy, of in states.items()]
        draw_criticality(folder / "criticality.svg", panels)
        files.append("criticality.svg")
    named = {
        criticality_row(policy): {f"eval/{name}": one for name, one in of.items()} for policy, of in figures.items()
    }
    return Findings(
        figures=named, tables=tuple(criticality_tables(figures, what.criticality.inspection)), files=tuple(files)
    )
