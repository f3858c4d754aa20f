"""The report of a reproduction, from its runs' folders: rows, gains, ends of curves, and whether each figure is where
it is expected."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import count, takewhile
from types import MappingProxyType
from typing import get_args

from rlx.base.console import duration
from rlx.base.table import MISSING, Table, markdown_cell, to_markdown
from rlx.evaluation.picture import picture_svg
from rlx.evaluation.tables import (
    TOOL_USE,
    accuracy_table,
    estimate_cell,
    figure_table,
    part_tables,
    pass_columns,
    tool_table,
    use_columns,
)
from rlx.lab.reproduce.answers import (
    PLAIN,
    band_answers,
    claim_answers,
    claims_table,
    contradictions,
    expected_table,
    summaries,
)
from rlx.lab.reproduce.figures import Figures as Estimates
from rlx.lab.reproduce.figures import (
    each_seed_of_rows,
    gain_figures,
    naming,
    row_figures,
    score,
    seed_gain_figures,
    seed_row_figures,
)
from rlx.lab.reproduce.members import Member, Runs
from rlx.lab.reproduce.reproduction import Reproduction, ReproductionError
from rlx.lab.reproduce.results import Figure, Figures, RunCost, figure_from, rounded
from rlx.lab.reproduce.samples import distribution_table, sample_of
from rlx.runs.folder import SUMMARY
from rlx.runs.summary import read_summary
from rlx.view.report.curves import By, Curve, Line, curve_panel, line_of
from rlx.view.report.panels import Sample, bars_panel, distribution_panel, frontier_panel, pass_panel
from rlx.view.report.pictures import Distribution

CURVES = "curves.svg"


def curve_lines(reproduction: Reproduction, runs: Runs) -> dict[str, dict[str, Line]]:
    """Return the line of each run, for each curve."""
    lines_by_curve = {
        title: {name: line_of(runs[name], curve.metric, curve.window) for name in curve.runs}
        for title, curve in reproduction.curves.items()
    }
    for title, lines in lines_by_curve.items():
        by = reproduction.curves[title].by
        for name in (name for name, line in lines.items() if by not in line.spent):
            raise ReproductionError(f"{title}: not every step of {runs[name][0]} tells its batch/{by}: run it again")
    return lines_by_curve


def spent_table(reproduction: Reproduction, lines: Mapping[str, Mapping[str, Line]]) -> Table:
    """Return a table of the cost at which each run's curve first reached the value `reach`."""
    rows = [
        (f"{title} {curve.reach:g}", name, *(until(lines[title][name], curve.reach, by) for by in get_args(By)))
        for title, curve in reproduction.curves.items()
        if curve.reach is not None
        for name in curve.runs
    ]
    header = ("curve", "run", *get_args(By))
    return Table(title="Spent until it is reached, by seed", header=header, rows=tuple(rows))


def until(line: Line, reach: float, by: By) -> str:
    """Return what each seed spent."""
    spent = line.until(reach, by) if by in line.spent else [None]
    return ", ".join(MISSING if amount is None else f"{amount:,.0f}" for amount in spent)


def ends_table(reproduction: Reproduction, lines: Mapping[str, Mapping[str, Line]]) -> Table:
    """Return the end of each curve, or the point that it is read at."""
    rows = [
        (
            title,
            read_at(line, reproduction.curves[title]),
            name,
            estimate_cell(line.point(reproduction.curves[title]), PLAIN),
        )
        for title, run_lines in lines.items()
        for name, line in run_lines.items()
    ]
    title = "Ends of the curves [95% interval over seeds]"
    return Table(title=title, header=("curve", "metric", "run", "at the end"), rows=tuple(rows))


def read_at(line: Line, curve: Curve) -> str:
    """Name a curve's metric, and the amount that it is read at; a run that ended before has less."""
    if curve.amount is None:
        return curve.metric
    least = line.least_spent(curve.by)
    short = f", a seed ended at {least:,.0f}" if least < curve.amount else ""
    return f"{curve.metric} at {curve.amount:,.0f} {curve.by}{short}"


@dataclass(frozen=True, kw_only=True)
class Measured:
    """Everything that a report shows of the runs."""

    rows: Mapping[str, Estimates]
    gains: Mapping[str, Estimates]
    over_seeds: Mapping[str, Estimates]
    """Gains with intervals over seeds."""
    rows_over_seeds: Mapping[str, Estimates]
    """Rows with intervals over seeds."""
    row_seeds: Mapping[str, Mapping[str, Sequence[float]]]
    """Values of each seed by row and figure."""
    lines: Mapping[str, Mapping[str, Line]]
    """Keys are the title of the curves and the run."""
    samples: Mapping[str, Mapping[str, Sample]]
    """Keys are the title of the distribution and the row."""


def measure_runs(reproduction: Reproduction, runs: Runs) -> Measured:
    """Read the runs' folders."""
    scores = score(reproduction, runs)
    rows: dict[str, Estimates] = {}
    for name, row in reproduction.rows.items():
        with naming(name):
            rows[name] = row_figures(reproduction, row, runs, scores)
    return Measured(
        rows=rows,
        gains=gain_figures(reproduction, scores),
        over_seeds=seed_gain_figures(reproduction, scores),
        rows_over_seeds=seed_row_figures(reproduction, scores),
        row_seeds=each_seed_of_rows(reproduction, scores),
        lines=curve_lines(reproduction, runs),
        samples={
            title: samples_of(reproduction, picture, runs) for title, picture in reproduction.distributions.items()
        },
    )


def samples_of(reproduction: Reproduction, picture: Distribution, runs: Runs) -> dict[str, Sample]:
    """Return the sample of each row of a distribution."""
    named = {row: reproduction.rows[row].split(" ", 1) for row in picture.rows}
    return {row: sample_of(runs[arm], evaluation, picture) for row, (arm, evaluation) in named.items()}


def pictures_of(reproduction: Reproduction, measured: Measured) -> dict[str, str]:
    """Return the SVG text of each picture, by the name of its file."""
    paper = reproduction.published
    panels = {
        CURVES: [curve_panel(title, lines, reproduction.curves[title].by) for title, lines in measured.lines.items()],
        "pass_curves.svg": [
            pass_panel(*entry, measured.rows, paper, reproduction.ks) for entry in reproduction.pass_curves.items()
        ],
        "bars.svg": [bars_panel(*entry, measured.rows, paper) for entry in reproduction.bars.items()],
        "distributions.svg": [
            distribution_panel(*entry, measured.samples[entry[0]]) for entry in reproduction.distributions.items()
        ],
        "frontiers.svg": [frontier_panel(*entry, measured.rows, paper) for entry in reproduction.frontiers.items()],
    }
    return {file: picture_svg(some) for file, some in panels.items() if some}


def all_figures(
    reproduction: Reproduction, measured: Measured, study: Mapping[str, Estimates] = MappingProxyType({})
) -> dict[str, dict[str, Figure]]:
    """Return all figures with both intervals and the value of each seed. `study` has the figures of comparisons, whose
    intervals are over seeds, and of what is measured by itself."""
    points = {
        title: {f"eval/{run}": line.point(reproduction.curves[title]) for run, line in lines.items()}
        for title, lines in measured.lines.items()
    }
    compared = {name: study[name] for name in reproduction.comparisons}
    over_seeds = {**measured.rows_over_seeds, **measured.over_seeds, **points, **compared}
    gains = {name: measured.gains[name] for name in reproduction.gains}
    problems = {**measured.rows, **gains, **{name: study[name] for name in study if name not in compared}}
    seeds = {**measured.row_seeds, **{name: seeds_of_gain(name, measured.gains) for name in gains}}
    return {
        name: figures_from(problems.get(name, {}), over_seeds.get(name, {}), seeds.get(name, {}))
        for name in (*problems, *points, *compared)
    }


def seeds_of_gain(name: str, gains: Mapping[str, Estimates]) -> dict[str, list[float]]:
    """Return the gain of each seed by figure; empty for one seed."""
    each = [
        gains[gain_name] for gain_name in takewhile(gains.__contains__, (f"{name}, seed {seed}" for seed in count()))
    ]
    return {stat: [figures[stat].value for figures in each] for stat in gains[name]} if each else {}


def figures_from(problems: Estimates, over_seeds: Estimates, seeds: Mapping[str, Sequence[float]]) -> dict[str, Figure]:
    """Return the figures of one row by their names without `eval/`."""
    stats = dict.fromkeys((*problems, *over_seeds))
    figures = {stat: figure_from(problems.get(stat), over_seeds.get(stat), seeds.get(stat, ())) for stat in stats}
    return {stat.removeprefix("eval/"): figure for stat, figure in figures.items() if figure is not None}


def report_tables(
    reproduction: Reproduction, measured: Measured, figures: Figures
) -> tuple[list[Table], list[str], list[str]]:
    """Return the tables of a report, the number of each verdict, and a sentence for each contradicted band or claim."""
    rows, gains = measured.rows, measured.gains
    printed = {
        row: {f"eval/{name}": x for name, x in row_values.items()} for row, row_values in reproduction.published.items()
    }
    first, *_, reward = (*use_columns([*rows.values(), *gains.values()]), TOOL_USE[-1])
    columns = dict.fromkeys((*pass_columns(name for estimates in gains.values() for name in estimates), first, reward))
    title = "Gain of these seeds, points and reward [95% paired interval over problems]"
    bands, claims = band_answers(reproduction, figures), claim_answers(reproduction, figures)
    tables = [
        accuracy_table(rows, published=printed),
        tool_table(rows, published=printed),
        *part_tables(rows, published=printed),
        figure_table(title, tuple(columns), {}, gains=gains),
        *part_tables({name: gains[name] for name in reproduction.gains}, prefix="Gain of these seeds, "),
        *seed_tables(measured.rows_over_seeds, "Mean"),
        *seed_tables(measured.over_seeds, "Gain"),
        ends_table(reproduction, measured.lines),
        spent_table(reproduction, measured.lines),
        distribution_table(reproduction.distributions, measured.samples),
        expected_table(bands),
        claims_table(claims),
    ]
    return [table for table in tables if table.rows], summaries(bands, claims), contradictions([*bands, *claims])


def seed_tables(named: Mapping[str, Estimates], noun: str) -> list[Table]:
    """Return the rows or gains over seeds: pass@k, cost and reward, then each figure by part."""
    columns = (*pass_columns(name for figures in named.values() for name in figures), *use_columns([*named.values()]))
    title = f"{noun} over seeds, points and reward [95% interval over seeds, on these problems]"
    rows, gains = ({}, named) if noun == "Gain" else (named, {})
    return [figure_table(title, columns, rows, gains=gains), *part_tables(named, prefix=f"{noun} over seeds, ")]


def cost_of(members: Sequence[Member]) -> dict[str, RunCost]:
    """Return the cost of each run by its name."""
    costs = {member.name: read_summary(member.folder / SUMMARY).cost for member in members}
    return {
        name: RunCost(tokens=cost.tokens, tool_calls=cost.tool_calls, seconds=rounded(cost.seconds))
        for name, cost in costs.items()
    }


def commits_of(members: Sequence[Member]) -> tuple[str, ...]:
    """Return the commits that the runs were made with, each once."""
    commits = [git for member in members if (git := read_summary(member.folder / SUMMARY).git) is not None]
    return tuple(dict.fromkeys(f"{git.commit}{', changed' * git.dirty}" for git in commits))


def cost_table(costs: Mapping[str, RunCost]) -> Table:
    """Return the cost of each run."""
    rows = [(name, f"{cost.tokens:,}", f"{cost.tool_calls:,}", duration(cost.seconds)) for name, cost in costs.items()]
    return Table(title="Cost", header=("run", "tokens sampled", "tool calls", "time"), rows=tuple(rows))


def report_text(name: str, reproduction: Reproduction, tables: Sequence[Table]) -> str:
    """Return the report as a page."""
    notes = (
        "Intervals are over problems unless a title says over seeds (docs/intervals.md). Verdicts are over seeds. "
        "A mean over seeds is of these seeds. The gain of a seed is that seed's over the mean of the other's seeds."
    )
    name, source, setting = (markdown_cell(text, 600) for text in (name, reproduction.source, reproduction.setting))
    head = f"# {name}\n\nPublished: {source}. {setting}\n"
    return "\n".join([head, *map(to_markdown, tables), notes, ""])
