"""Measurements of a reproduction beside evaluations and curves: credit, means over steps, criticality.

All of it becomes figures, `eval/stat` by the name that `expected` and claims have for it, tables, files and pictures.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

from rlx.base.limits import near
from rlx.base.regular import write_aside
from rlx.base.table import Table
from rlx.env.bifurcation.bifurcation import Bifurcation
from rlx.hardware.packages import lacks
from rlx.lab.credit_command import (
    STATS,
    Report,
    Settings,
    credit_tables,
    credit_values,
    measure_algorithm,
    refuse_environment,
)
from rlx.lab.criticality import FIGURES, Inspection, State
from rlx.lab.criticality_command import (
    criticality_panel,
    criticality_tables,
    draw_criticality,
    figures_of,
    measure_or_read,
    start_model,
    trained_model,
)
from rlx.lab.laboratory import refuse_algorithm
from rlx.lab.reproduce.comparisons import comparison_table
from rlx.lab.reproduce.members import Runs
from rlx.lab.reproduce.reproduction import Reproduction, ReproductionError
from rlx.lab.reproduce.studies import Policies, Study, credit_row, criticality_row
from rlx.run.run import Run
from rlx.runs.folder import digest_of
from rlx.runs.form import NUMBER, CodecError, made, named
from rlx.runs.provenance import provenance_of
from rlx.runs.single_files import read_json
from rlx.runs.summary import Estimate
from rlx.settings.compose import ConfigError, build_run
from rlx.settings.saved import load_tree

ESTIMATE = made(Estimate, value=NUMBER, low=NUMBER, high=NUMBER)
REPORT = made(Report, figures=named(named(ESTIMATE)), gradients=named(ESTIMATE), cost=named(NUMBER))

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
    return measured_credit(what, built, folder, say) | compare(what, runs) | measured_policies(what, runs, folder, say)


def measured_credit(what: Reproduction, built: Mapping[str, Run], folder: Path, say: Say) -> Findings:
    """Measure credit in the laboratory, or read what was measured by the same code and settings."""
    if what.credit is None:
        return Findings()
    reports, settings = study_reports(what.credit, built, folder / "credit", say), study_settings(what.credit)
    write_aside(folder / "credit.json", json.dumps(credit_values(0, reports, settings), indent=2) + "\n")
    return Findings(
        figures=named_figures(reports), tables=tuple(credit_tables(0, reports, settings)), files=("credit.json",)
    )


def compare(what: Reproduction, runs: Runs) -> Findings:
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


def study_settings(study: Study) -> Settings:
    return Settings(num_tasks=study.tasks, tokens=study.tokens, budget=study.budget)


def check_study(what: Reproduction, runs: Mapping[str, Run]) -> None:
    """Refuse runs that the laboratory cannot measure, and expected figures that it does not have."""
    if what.credit is None:
        return
    for name in what.credit.of:
        refuse_environment(runs[name].env)
        refuse_algorithm(runs[name].algo)
        for stat in (stat for stat in what.expected.get(credit_row(name), ()) if stat not in STATS):
            raise ConfigError(f"{credit_row(name)}: expected has no figure {stat!r:.60}{near(stat, STATS)}")


def study_reports(study: Study, runs: Mapping[str, Run], folder: Path, say: Say) -> dict[str, Report]:
    """Measure the algorithms of a reproduction's runs, with seed 0; each report is kept in a file of the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    return {name: study_report(study, name, runs[name], folder / f"{name}.json", say) for name in study.of}


def study_report(study: Study, name: str, run: Run, file: Path, say: Say) -> Report:
    """Measure one algorithm, or read the report of the same code, configuration and settings."""
    settings, parts = study_settings(study), {part: run.config[part] for part in ("env", "algo", "protocol", "seed")}
    key = digest_of({"config": parts, "settings": asdict(settings), "provenance": provenance_of(parts).digest})
    known = read_report(file, key)
    if known is not None:
        return known
    say(f"credit of {name}: {study.tokens} tokens")
    assert isinstance(run.env, Bifurcation)
    report = measure_algorithm(run.algo, run.env, run.dialects[""], settings, run.seed)
    write_aside(file, json.dumps({"key": key, "report": REPORT.write(report)}) + "\n")
    return report


def read_report(file: Path, key: str) -> Report | None:
    """Return the report in a file, where it is whole and of this key."""
    found = read_json(file)
    with suppress(CodecError):
        report: Report = REPORT.read(found.get("report"), file.name)
        return report if found.get("key") == key else None
    return None


def named_figures(reports: Mapping[str, Report]) -> dict[str, dict[str, Estimate]]:
    """Return the figures of each report, under the names that `expected` has for them."""
    return {
        credit_row(name): {
            **{f"eval/gradient/{cells}": one for cells, one in report.gradients.items()},
            **{f"eval/{weigh}/{stat}": one for weigh, of in report.figures.items() for stat, one in of.items()},
        }
        for name, report in reports.items()
    }


def policy_states(what: Policies, runs: Runs, folder: Path) -> dict[str, list[State]]:
    """Measure the policies of a reproduction, all seeds of a run together; the first policy of a run for seed 0."""
    inspection, found = what.inspection, {}
    for policy in what.of:
        name, which = policy.split(" ")
        seeds = runs[name][:1] if which == "start" else runs[name]
        found[policy] = [
            replace(state, task=f"{seed}/{state.task}")
            for seed, place in enumerate(seeds)
            for state in states_of_seed(place, which, folder / f"criticality-{name}-{which}-{seed}.json", inspection)
        ]
    return found


def states_of_seed(place: Path, which: str, file: Path, inspection: Inspection) -> list[State]:
    """Measure a policy of the run in this folder."""
    run = build_run(load_tree(place, tracks=False), place)
    return measure_or_read(run, start_model(run) if which == "start" else trained_model(run), file, inspection)


def policy_figures(what: Policies, found: Mapping[str, Sequence[State]]) -> dict[str, dict[str, Estimate]]:
    """Return the figures of each policy."""
    return {policy: figures_of(states, what.inspection) for policy, states in found.items()}
