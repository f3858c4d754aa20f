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


def curve_lines(what: Reproduction, runs: Runs) -> dict[str, dict[str, Line]]:
    """Return the line of each run, for each curve."""
    found = {
        title: {name: line_of(runs[name], curve.metric, curve.window) for name in curve.of}
        for title, curve in what.curves.items()
    }
    for title, lines in found.items():
        by = what.curves[title].by
        for name in (name for name, line in lines.items() if by not in line.spent):
            raise ReproductionError(f"{title}: not every step of {runs[name][0]} tells its batch/{by}: run it again")
    return found


def spent_table(what: Reproduction, lines: Mapping[str, Mapping[str, Line]]) -> Table:
    """Return what each run spent until its curve reached its goal."""
    rows = [
        (f"{title} {curve.reach:g}", name, *(until(lines[title][name], curve.reach, by) for by in get_args(By)))
        for title, curve in what.curves.items()
        if curve.reach is not None
        for name in curve.of
    ]
    header = ("curve", "run", *get_args(By))
    return Table(title="Spent until it is reached, by seed", header=header, rows=tuple(rows))


def until(line: Line, reach: float, by: By) -> str:
    """Return what each seed spent."""
    spent = line.until(reach, by) if by in line.spent else [None]
    return ", ".join(MISSING if one is None else f"{one:,.0f}" for one in spent)


def ends_table(what: Reproduction, lines: Mapping[str, Mapping[str, Line]]) -> Table:
    """Return the end of each curve, or the point that it is read at."""
    rows = [
        (title, read_at(line, what.curves[title]), name, estimate_cell(line.point(what.curves[title]), PLAIN))
        for title, told in lines.items()
        for name, line in told.items()
    ]
    title = "Ends of the curves [95% interval over seeds]"
    return Table(title=title, header=("curve", "metric", "run", "at the end"), rows=tuple(rows))


def read_at(line: Line, curve: Curve) -> str:
    """Name a curve's metric, and the amount that it is read at; a run that ended before has less."""
    if curve.at is None:
        return curve.metric
    least = line.least_spent(curve.by)
    short = f", a seed ended at {least:,.0f}" if least < curve.at else ""
    return f"{curve.metric} at {curve.at:,.0f} {curve.by}{short}"


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


def measure_runs(what: Reproduction, runs: Runs) -> Measured:
    """Read the runs' folders."""
    scores = score(what, runs)
    rows: dict[str, Estimates] = {}
    for name, row in what.rows.items():
        with naming(name):
            rows[name] = row_figures(what, row, runs, scores)
    return Measured(
        rows=rows,
        gains=gain_figures(what, scores),
        over_seeds=seed_gain_figures(what, scores),
        rows_over_seeds=seed_row_figures(what, scores),
        row_seeds=each_seed_of_rows(what, scores),
        lines=curve_lines(what, runs),
        samples={title: samples_of(what, picture, runs) for title, picture in what.distributions.items()},
    )


def samples_of(what: Reproduction, picture: Distribution, runs: Runs) -> dict[str, Sample]:
    """Return the sample of each row of a distribution."""
    named = {row: what.rows[row].split(" ", 1) for row in picture.rows}
    return {row: sample_of(runs[arm], evaluation, picture) for row, (arm, evaluation) in named.items()}


def pictures_of(what: Reproduction, found: Measured) -> dict[str, str]:
    """Return the SVG text of each picture, by the name of its file."""
    paper = what.published
    panels = {
        CURVES: [curve_panel(title, lines, what.curves[title].by) for title, lines in found.lines.items()],
        "pass_curves.svg": [pass_panel(*one, found.rows, paper, what.ks) for one in what.pass_curves.items()],
        "bars.svg": [bars_panel(*one, found.rows, paper) for one in what.bars.items()],
        "distributions.svg": [distribution_panel(*one, found.samples[one[0]]) for one in what.distributions.items()],
        "frontiers.svg": [frontier_panel(*one, found.rows, paper) for one in what.frontiers.items()],
    }
    return {file: picture_svg(some) for file, some in panels.items() if some}


def all_figures(
    what: Reproduction, found: Measured, study: Mapping[str, Estimates] = MappingProxyType({})
) -> dict[str, dict[str, Figure]]:
    """Return all figures with both intervals and the value of each seed. `study` has the figures of comparisons, whose
    intervals are over seeds, and of what is measured by itself."""
    points = {
        title: {f"eval/{run}": line.point(what.curves[title]) for run, line in lines.items()}
        for title, lines in found.lines.items()
    }
    compared = {name: study[name] for name in what.comparisons}
    over_seeds = {**found.rows_over_seeds, **found.over_seeds, **points, **compared}
    gains = {name: found.gains[name] for name in what.gains}
    problems = {**found.rows, **gains, **{name: study[name] for name in study if name not in compared}}
    seeds = {**found.row_seeds, **{name: seeds_of_gain(name, found.gains) for name in gains}}
    return {
        name: figures_from(problems.get(name, {}), over_seeds.get(name, {}), seeds.get(name, {}))
        for name in (*problems, *points, *compared)
    }


def seeds_of_gain(name: str, gains: Mapping[str, Estimates]) -> dict[str, list[float]]:
    """Return the gain of each seed by figure; empty for one seed."""
    each = [gains[one] for one in takewhile(gains.__contains__, (f"{name}, seed {seed}" for seed in count()))]
    return {stat: [figures[stat].value for figures in each] for stat in gains[name]} if each else {}


def figures_from(problems: Estimates, over_seeds: Estimates, seeds: Mapping[str, Sequence[float]]) -> dict[str, Figure]:
    """Return the figures of one row by their names without `eval/`."""
    stats = dict.fromkeys((*problems, *over_seeds))
    figures = {stat: figure_from(problems.get(stat), over_seeds.get(stat), seeds.get(stat, ())) for stat in stats}
    return {stat.removeprefix("eval/"): figure for stat, figure in figures.items() if figure is not None}


def report_tables(what: Reproduction, found: Measured, figures: Figures) -> tuple[list[Table], list[str], list[str]]:
    """Return the tables of a report, the number of each verdict, and a sentence for each contradicted band or claim."""
    rows, gains = found.rows, found.gains
    printed = {row: {f"eval/{name}": x for name, x in told.items()} for row, told in what.published.items()}
    first, *_, reward = (*use_columns([*rows.values(), *gains.values()]), TOOL_USE[-1])
    columns = dict.fromkeys((*pass_columns(name for told in gains.values() for name in told), first, reward))
    title = "Gain of these seeds, points and reward [95% paired interval over problems]"
    bands, claims = band_answers(what, figures), claim_answers(what, figures)
    tables = [
        accuracy_table(rows, published=printed),
        tool_table(rows, published=printed),
        *part_tables(rows, published=printed),
        figure_table(title, tuple(columns), {}, gains=gains),
        *part_tables({name: gains[name] for name in what.gains}, of="Gain of these seeds, "),
        *seed_tables(found.rows_over_seeds, "Mean"),
        *seed_tables(found.over_seeds, "Gain"),
        ends_table(what, found.lines),
        spent_table(what, found.lines),
        distribution_table(what.distributions, found.samples),
        expected_table(bands),
        claims_table(claims),
    ]
    return [table for table in tables if table.rows], summaries(bands, claims), contradictions([*bands, *claims])


def seed_tables(named: Mapping[str, Estimates], noun: str) -> list[Table]:
    """Return the rows or gains over seeds: pass@k, cost and reward, then each figure by part."""
    columns = (*pass_columns(name for figures in named.values() for name in figures), *use_columns([*named.values()]))
    title = f"{noun} over seeds, points and reward [95% interval over seeds, on these problems]"
    rows, gains = ({}, named) if noun == "Gain" else (named, {})
    return [figure_table(title, columns, rows, gains=gains), *part_tables(named, of=f"{noun} over seeds, ")]


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


def report_text(name: str, what: Reproduction, tables: Sequence[Table]) -> str:
    """Return the report as a page."""
    notes = (
        "Intervals are over problems unless a title says over seeds (docs/intervals.md). Verdicts are over seeds. "
        "A mean over seeds is of these seeds. The gain of a seed is that seed's over the mean of the other's seeds."
    )
    name, source, setting = (markdown_cell(text, 600) for text in (name, what.source, what.setting))
    head = f"# {name}\n\nPublished: {source}. {setting}\n"
    return "\n".join([head, *map(to_markdown, tables), notes, ""])
