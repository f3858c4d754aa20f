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


def check_measured(file: Path, reproduction: Reproduction, runs: Mapping[str, Run]) -> None:
    """Refuse what cannot be measured, and expected or claimed figures that it will not have."""
    check_study(reproduction, runs)
    stats_by_row = {credit_row(name): STATS for name in (reproduction.credit.runs if reproduction.credit else ())}
    stats_by_row |= {name: (comparison.kind,) for name, comparison in reproduction.comparisons.items()}
    stats_by_row |= {
        criticality_row(policy): tuple(FIGURES)
        for policy in (reproduction.criticality.policies if reproduction.criticality else ())
    }
    for name, stats in stats_by_row.items():
        requested = [
            *reproduction.expected.get(name, ()),
            *(claim.figure for claim in reproduction.claims.values() if claim.row == name),
        ]
        for stat in (stat for stat in requested if stat not in stats):
            raise ReproductionError(f"{file}: {name}: there is no figure {stat!r:.60}{near(stat, stats)}")


def measure_more(reproduction: Reproduction, built: Mapping[str, Run], runs: Runs, folder: Path, say: Say) -> Findings:
    """Measure all of it; files go into the folder."""
    return (
        measured_credit(reproduction, built, folder, say)
        | compare(reproduction, runs)
        | measured_policies(reproduction, runs, folder, say)
    )


def measured_credit(reproduction: Reproduction, built: Mapping[str, Run], folder: Path, say: Say) -> Findings:
    """Measure credit in the laboratory, or read what was measured by the same code and settings."""
    if reproduction.credit is None:
        return Findings()
    reports, settings = (
        study_reports(reproduction.credit, built, folder / "credit", say),
        study_settings(reproduction.credit),
    )
    write_aside(folder / "credit.json", json.dumps(credit_values(0, reports, settings), indent=2) + "\n")
    return Findings(
        figures=named_figures(reports), tables=tuple(credit_tables(0, reports, settings)), files=("credit.json",)
    )


def compare(reproduction: Reproduction, runs: Runs) -> Findings:
    """Compare means over steps."""
    if not reproduction.comparisons:
        return Findings()
    figures = {
        name: {f"eval/{comparison.kind}": comparison.figure(runs)}
        for name, comparison in reproduction.comparisons.items()
    }
    return Findings(figures=figures, tables=(comparison_table(reproduction.comparisons, figures),))


def measured_policies(reproduction: Reproduction, runs: Runs, folder: Path, say: Say) -> Findings:
    """Measure the criticality of turns, and draw it."""
    if reproduction.criticality is None:
        return Findings()
    say(f"criticality of {', '.join(reproduction.criticality.policies)}: {reproduction.criticality.tasks} tasks each")
    states = policy_states(reproduction.criticality, runs, folder)
    figures = policy_figures(reproduction.criticality, states)
    write_aside(
        folder / "criticality.json",
        json.dumps({policy: [asdict(state) for state in state_list] for policy, state_list in states.items()}) + "\n",
    )
    files = ["criticality.json"]
    if not lacks("plots"):
        panels = [criticality_panel(policy, state_list) for policy, state_list in states.items()]
        draw_criticality(folder / "criticality.svg", panels)
        files.append("criticality.svg")
    named = {
        criticality_row(policy): {f"eval/{name}": estimate for name, estimate in estimates.items()}
        for policy, estimates in figures.items()
    }
    return Findings(
        figures=named,
        tables=tuple(criticality_tables(figures, reproduction.criticality.inspection)),
        files=tuple(files),
    )


def study_settings(study: Study) -> Settings:
    return Settings(num_tasks=study.tasks, tokens=study.tokens, budget=study.budget)


def check_study(reproduction: Reproduction, runs: Mapping[str, Run]) -> None:
    """Refuse runs that the laboratory cannot measure, and expected figures that it does not have."""
    if reproduction.credit is None:
        return
    for name in reproduction.credit.runs:
        refuse_environment(runs[name].env)
        refuse_algorithm(runs[name].algo)
        for stat in (stat for stat in reproduction.expected.get(credit_row(name), ()) if stat not in STATS):
            raise ConfigError(f"{credit_row(name)}: expected has no figure {stat!r:.60}{near(stat, STATS)}")


def study_reports(study: Study, runs: Mapping[str, Run], folder: Path, say: Say) -> dict[str, Report]:
    """Measure the algorithms of a reproduction's runs, with seed 0; each report is kept in a file of the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    return {name: study_report(study, name, runs[name], folder / f"{name}.json", say) for name in study.runs}


def study_report(study: Study, name: str, run: Run, file: Path, say: Say) -> Report:
    """Measure one algorithm, or read the report of the same code, configuration and settings."""
    settings, parts = study_settings(study), {part: run.config[part] for part in ("env", "algo", "protocol", "seed")}
    key = digest_of({"config": parts, "settings": asdict(settings), "provenance": provenance_of(parts).digest})
    stored_report = read_report(file, key)
    if stored_report is not None:
        return stored_report
    say(f"credit of {name}: {study.tokens} tokens")
    assert isinstance(run.env, Bifurcation)
    report = measure_algorithm(run.algo, run.env, run.dialects[""], settings, run.seed)
    write_aside(file, json.dumps({"key": key, "report": REPORT.write(report)}) + "\n")
    return report


def read_report(file: Path, key: str) -> Report | None:
    """Return the report in a file, where it is whole and of this key."""
    contents = read_json(file)
    with suppress(CodecError):
        report: Report = REPORT.read(contents.get("report"), file.name)
        return report if contents.get("key") == key else None
    return None


def named_figures(reports: Mapping[str, Report]) -> dict[str, dict[str, Estimate]]:
    """Return the figures of each report, under the names that `expected` has for them."""
    return {
        credit_row(name): {
            **{f"eval/gradient/{cells}": estimate for cells, estimate in report.gradients.items()},
            **{
                f"eval/{weigh}/{stat}": estimate
                for weigh, estimates in report.figures.items()
                for stat, estimate in estimates.items()
            },
        }
        for name, report in reports.items()
    }


def policy_states(policies: Policies, runs: Runs, folder: Path) -> dict[str, list[State]]:
    """Measure the policies of a reproduction, all seeds of a run together; the first policy of a run for seed 0."""
    inspection, states_by_policy = policies.inspection, {}
    for policy in policies.policies:
        name, phase = policy.split(" ")
        seeds = runs[name][:1] if phase == "start" else runs[name]
        states_by_policy[policy] = [
            replace(state, task=f"{seed}/{state.task}")
            for seed, place in enumerate(seeds)
            for state in states_of_seed(place, phase, folder / f"criticality-{name}-{phase}-{seed}.json", inspection)
        ]
    return states_by_policy


def states_of_seed(place: Path, phase: str, file: Path, inspection: Inspection) -> list[State]:
    """Measure a policy of the run in this folder."""
    run = build_run(load_tree(place, tracks=False), place)
    return measure_or_read(run, start_model(run) if phase == "start" else trained_model(run), file, inspection)


def policy_figures(
    policies: Policies, states_by_policy: Mapping[str, Sequence[State]]
) -> dict[str, dict[str, Estimate]]:
    """Return the figures of each policy."""
    return {policy: figures_of(states, policies.inspection) for policy, states in states_by_policy.items()}
