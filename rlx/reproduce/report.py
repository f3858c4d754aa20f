"""The report of a reproduction, from its runs' folders: rows, gains, ends of curves, and whether each figure is where
it is expected."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import isfinite
from types import MappingProxyType
from typing import get_args

from rlx.console import duration
from rlx.evaluate.intervals import Estimate
from rlx.evaluate.picture import picture_svg
from rlx.evaluate.summary import read_summary
from rlx.evaluate.tables import (
    TOOL_USE,
    Column,
    accuracy_table,
    estimate_cell,
    figure_table,
    number_cell,
    part_tables,
    pass_columns,
    tool_table,
    use_columns,
)
from rlx.record.folder import SUMMARY
from rlx.report.curves import By, Curve, Line, curve_panel, line_of
from rlx.report.panels import Sample, bars_panel, distribution_panel, frontier_panel, pass_panel
from rlx.report.pictures import Distribution
from rlx.reproduce.figures import Figures, gain_figures, naming, row_figures, score, seed_gain_figures
from rlx.reproduce.members import Member, Runs
from rlx.reproduce.reproduction import Reproduction, ReproductionError
from rlx.reproduce.samples import distribution_table, sample_of
from rlx.reproduce.studies import Claim
from rlx.table import MISSING, Table, markdown_cell, to_markdown

CURVES = "curves.svg"
PLAIN = Column(stat="", title="", digits=3)
"""Any other figure."""


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


def expected_table(what: Reproduction, found: Mapping[str, Figures]) -> tuple[Table, list[str]]:
    """Return what was measured beside the bands, and a sentence for each figure outside of its band."""
    rows, failed = [], []
    for name, bands in what.expected.items():
        for stat, (low, high) in bands.items():
            value, column = figure_of(name, stat, found[name]).value, column_of(what, stat)
            cells = [number_cell(number, column) for number in (value, low, high)]
            rows.append((name, column.title, *cells, "yes" if low <= value <= high else "NO"))
            if not low <= value <= high:
                failed.append(f"{name}: {column.title} is {cells[0]}, expected from {cells[1]} to {cells[2]}")
    header = ("row", "figure", "measured", "least", "most", "within")
    return Table(title="Expected of this reproduction", header=header, rows=tuple(rows)), failed


def claims_table(what: Reproduction, found: Mapping[str, Figures]) -> tuple[Table, list[str]]:
    """Return the source's claims beside what was measured, and a sentence for each that does not come out."""
    rows, failed = [], []
    for sentence, claim in what.claims.items():
        value, column = figure_of(claim.of, claim.figure, found[claim.of]).value, column_of(what, claim.figure)
        measured, comes_out = number_cell(value, column), claim.least <= value <= claim.most
        means = f"{column.title} of {claim.of} {bounds(claim, column)}"
        rows.append((sentence, means, measured, "yes" if comes_out else "NO"))
        if not comes_out:
            failed.append(f"the paper's claim does not come out: {sentence} ({means}; measured {measured})")
    return Table(
        title="Claims of the paper", header=("claim", "means", "measured", "comes out"), rows=tuple(rows)
    ), failed


def bounds(claim: Claim, column: Column) -> str:
    """Say from where to where a claim lets its figure be."""
    told = {"at least": claim.least, "at most": claim.most}
    return " and ".join(f"{word} {number_cell(number, column)}" for word, number in told.items() if isfinite(number))


def column_of(what: Reproduction, stat: str) -> Column:
    known = {column.stat: column for column in (*pass_columns(f"eval/pass@{k}" for k in what.ks), *TOOL_USE)}
    return known.get(stat, replace(PLAIN, stat=stat, title=stat))


def figure_of(name: str, stat: str, figures: Figures) -> Estimate:
    """Return a figure of a row, a gain or a curve."""
    if f"eval/{stat}" not in figures:
        known = ", ".join(sorted(figure.split("/", 1)[1] for figure in figures))
        raise ReproductionError(f"{name}: expected has no figure {stat!r} to look at among {known}")
    return figures[f"eval/{stat}"]


@dataclass(frozen=True, kw_only=True)
class Measured:
    """Everything that a report shows of the runs."""

    rows: Mapping[str, Figures]
    gains: Mapping[str, Figures]
    over_seeds: Mapping[str, Figures]
    """Gains with intervals over seeds."""
    lines: Mapping[str, Mapping[str, Line]]
    """Keys are the title of the curves and the run."""
    samples: Mapping[str, Mapping[str, Sample]]
    """Keys are the title of the distribution and the row."""


def measure_runs(what: Reproduction, runs: Runs) -> Measured:
    """Read the runs' folders."""
    scores = score(what, runs)
    rows: dict[str, Figures] = {}
    for name, row in what.rows.items():
        with naming(name):
            rows[name] = row_figures(what, row, runs, scores)
    return Measured(
        rows=rows,
        gains=gain_figures(what, scores),
        over_seeds=seed_gain_figures(what, scores),
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


def report_tables(
    what: Reproduction, found: Measured, study: Mapping[str, Figures] = MappingProxyType({})
) -> tuple[list[Table], list[str]]:
    """Return the tables of a report, and a sentence for each figure that is not as expected or claimed. `study` has the
    figures of comparisons and of what is measured by itself."""
    rows, gains, lines = found.rows, found.gains, found.lines
    ends = {
        title: {f"eval/{name}": line.point(what.curves[title]) for name, line in told.items()}
        for title, told in lines.items()
    }
    printed = {row: {f"eval/{name}": x for name, x in told.items()} for row, told in what.published.items()}
    first, *_, reward = (*use_columns([*rows.values(), *gains.values()]), TOOL_USE[-1])
    columns = dict.fromkeys((*pass_columns(name for told in gains.values() for name in told), first, reward))
    title = "Gain of these seeds, points and reward [95% paired interval over problems]"
    expected, missed = expected_table(what, {**rows, **gains, **ends, **study})
    claims, failed = claims_table(what, {**rows, **gains, **study})
    tables = [
        accuracy_table(rows, published=printed),
        tool_table(rows, published=printed),
        *part_tables(rows, published=printed),
        figure_table(title, tuple(columns), {}, gains=gains),
        *part_tables({name: gains[name] for name in what.gains}, of="Gain of these seeds, "),
        *seed_tables(found.over_seeds),
        ends_table(what, lines),
        spent_table(what, lines),
        distribution_table(what.distributions, found.samples),
        expected,
        claims,
    ]
    return [table for table in tables if table.rows], [*missed, *failed]


def seed_tables(gains: Mapping[str, Figures]) -> list[Table]:
    """Return the gains over seeds: pass@k and reward, then pass@k by part."""
    columns = (*pass_columns(name for told in gains.values() for name in told), TOOL_USE[-1])
    title = "Gain over seeds, points and reward [95% interval over seeds, on these problems]"
    by_part = {
        name: {figure: gain for figure, gain in told.items() if "/pass@" in figure} for name, told in gains.items()
    }
    parts = part_tables(by_part, of="Gain over seeds, ")
    return [figure_table(title, columns, {}, gains=gains), *parts]


def cost_table(members: Sequence[Member]) -> Table:
    costs = {member.name: read_summary(member.folder / SUMMARY).cost for member in members}
    rows = [(name, f"{cost.tokens:,}", f"{cost.tool_calls:,}", duration(cost.seconds)) for name, cost in costs.items()]
    return Table(title="Cost", header=("run", "tokens sampled", "tool calls", "time"), rows=tuple(rows))


def report_text(name: str, what: Reproduction, tables: Sequence[Table]) -> str:
    """Return the report as a page."""
    notes = (
        "Intervals are over problems unless a title says over seeds (docs/intervals.md). "
        "A mean over seeds is of these seeds. The gain of a seed is that seed's over the mean of the other's seeds."
    )
    name, source, setting = (markdown_cell(text, 600) for text in (name, what.source, what.setting))
    head = f"# {name}\n\nPublished: {source}. {setting}\n"
    return "\n".join([head, *map(to_markdown, tables), notes, ""])
