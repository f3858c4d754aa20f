"""Results as tables: the paper's Tables 2 and 3, for any runs."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from rlx.base.table import MISSING, Table
from rlx.evaluation.figures import REPORTED, SPREAD
from rlx.runs.summary import Estimate

Figures = Mapping[str, Estimate]
Published = Mapping[str, Mapping[str, Sequence[float]]]
"""Run to figure to the values that a paper prints, several where it has several agents for a run."""

PAIRED = "; gains are paired by problem, those of percentages in points"
"""The end of a title of a table with gains."""
OF_PART = re.compile(r"eval/([^/]+)/(pass@\d+|reward|reward_std|tool/calls|(?:env|reply)/[^/]+)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """A figure's place in a table."""

    stat: str
    """The figure's name after `eval/`."""
    title: str
    percent: bool = False
    digits: int = 1


TOOL_USE = (
    Column(stat="tool/calls", title="Calls", digits=2),
    Column(stat="tool/failed_rate", title="Failed, %", percent=True, digits=2),
    Column(stat="tool/mismatch_rate", title="Mismatch, %", percent=True, digits=2),
    Column(stat="tool/tokens", title="Obs. tokens"),
    Column(stat="reward", title="Reward", digits=3),
)
"""Table 3 of cost-aware Tool-RLOO, and observation tokens."""
STD = Column(stat=SPREAD, title="Reward std", digits=3)
PART_COLUMNS = {column.stat: column for column in (*TOOL_USE, STD)}
TURNS = Column(stat="episode/turns", title="Turns", digits=2)
ERRORS = Column(stat="episode/errors", title="Errors, %", percent=True)


def pass_columns(names: Iterable[str]) -> tuple[Column, ...]:
    """A column for each `eval/pass@k` among the names of figures: those that were asked for."""
    ks = {int(match[1]) for name in names if (match := re.fullmatch(r"eval/pass@(\d+)", name))}
    return tuple(Column(stat=f"pass@{k}", title=f"Pass@{k}", percent=True) for k in sorted(ks))


def accuracy_table(
    runs: Mapping[str, Figures], *, gains: Mapping[str, Figures] | None = None, published: Published | None = None
) -> Table:
    """Return pass@k in percent with 95% intervals: a row per run, then a row per gain, in points."""
    columns = pass_columns(name for figures in runs.values() for name in figures)
    title = "Pass@k, % [95% interval]" + PAIRED * bool(gains)
    return figure_table(title, columns, runs, gains=gains, published=published)


def tool_table(
    runs: Mapping[str, Figures], *, gains: Mapping[str, Figures] | None = None, published: Published | None = None
) -> Table:
    """Return what the answers cost: calls, failed calls, mismatches, observation tokens or turns, and the reward."""
    columns = use_columns(runs.values())
    subject = "Tool use per" if TOOL_USE[0] in columns else "An"
    title = f"{subject} episode [95% interval]" + PAIRED * bool(gains)
    return figure_table(title, columns, runs, gains=gains, published=published)


def use_columns(runs: Iterable[Figures]) -> tuple[Column, ...]:
    """Return the columns of what was measured.

    These are the use of tools, or else turns if an episode has several; the figures of environments and protocols;
    errors if there are any; and the reward, with its deviation unless all rewards are 0 or 1.
    """
    nonempty = [figures for figures in runs if figures]
    *tools, reward = TOOL_USE
    used = tools if any(has_value(figures, f"eval/{c.stat}") for c in tools for figures in nonempty) else []
    if not used and any(num.value not in (0, 1) for figures in nonempty if (num := figures.get("eval/episode/turns"))):
        used = [TURNS]
    reported_names = sorted(
        {name for figures in nonempty for name in figures if name.startswith(("eval/env/", "eval/reply/"))}
    )
    reported_columns = [
        Column(stat=name.removeprefix("eval/"), title=title_of(name), digits=2) for name in reported_names
    ]
    failed = [ERRORS] if any(has_value(figures, f"eval/{ERRORS.stat}") for figures in nonempty) else []
    spread = [STD] if any(is_measured(figures, f"eval/{SPREAD}") for figures in nonempty) else []
    return (*used, *reported_columns, *failed, reward, *spread)


def part_tables(runs: Mapping[str, Figures], *, published: Published | None = None, prefix: str = "") -> list[Table]:
    """Return a table for each pass@k, the reward, the calls if there are any, and figures that several parts report.

    Each has a column for each part of a mixture, as EARL's Tables 1, 2 and 4 do.
    """
    columns = part_columns(name for figures in runs.values() for name in figures if is_measured(figures, name))
    return [
        figure_table(
            f"{prefix}{of_part(stat).title} by part{', %' * stat_columns[0].percent} [95% interval]",
            stat_columns,
            runs,
            published=published,
        )
        for stat, stat_columns in columns.items()
    ]


def is_measured(figures: Figures, name: str) -> bool:
    """Tell whether a figure says anything: not where nothing was called, nor the deviation of rewards of 0 and 1."""
    if name.endswith(f"/{SPREAD}"):
        return name in figures and not is_binary(figures, name)
    return not name.endswith("/calls") or has_value(figures, name)


def is_binary(figures: Figures, name: str) -> bool:
    """Tell whether the mean of rewards says their deviation too, sqrt(mean (1 - mean)): all of them are 0 or 1."""
    mean = figures.get(name.removesuffix("_std"))
    return mean is not None and math.isclose(figures[name].value ** 2, mean.value * (1 - mean.value), abs_tol=1e-9)


def part_columns(names: Iterable[str]) -> dict[str, list[Column]]:
    """Return the columns of each figure, one for each part that reports it (`eval/countdown/pass@1`)."""
    part_stats = {match.groups() for match in map(OF_PART.fullmatch, names) if match}
    columns: dict[str, list[Column]] = {}
    for part, stat in sorted(
        part_stats,
        key=lambda part_stat: (not part_stat[1].startswith("pass"), len(part_stat[1]), part_stat[1], part_stat[0]),
    ):
        columns.setdefault(stat, []).append(replace(of_part(stat), stat=f"{part}/{stat}", title=part))
    return {stat: parts for stat, parts in columns.items() if len(parts) > 1 or not is_reported(stat)}


def of_part(stat: str) -> Column:
    """Return the column of a part's figure."""
    plain_column = Column(stat=stat, title=title_of(stat), digits=2)
    return PART_COLUMNS.get(
        stat, plain_column if is_reported(stat) else Column(stat=stat, title=stat.capitalize(), percent=True)
    )


def is_reported(stat: str) -> bool:
    """Tell whether a figure is an environment's or a protocol's own."""
    return stat.startswith(REPORTED)


def has_column(stat: str) -> bool:
    """Tell whether `accuracy_table`, `tool_table` or `part_tables` has a column for a figure where it was measured."""
    fixed = {column.stat for column in (*TOOL_USE, STD, TURNS, ERRORS)}
    name = f"eval/{stat}"
    return stat in fixed or is_reported(stat) or bool(pass_columns([name]) or OF_PART.fullmatch(name))


def has_value(figures: Figures, name: str) -> bool:
    return name in figures and figures[name].value != 0


def title_of(name: str) -> str:
    """`eval/env/num_swaps` as `Num swaps`."""
    return name.rpartition("/")[2].replace("_", " ").capitalize()


def figure_table(
    title: str,
    columns: Sequence[Column],
    runs: Mapping[str, Figures],
    *,
    gains: Mapping[str, Figures] | None = None,
    published: Published | None = None,
) -> Table:
    """Return a row per run and then per gain, without empty rows or columns; what a paper printed has columns of its
    own."""
    papers, signed = published or {}, gains or {}
    runs = {**runs, **signed}
    filled = [c for c in columns if any(f"eval/{c.stat}" in figures for figures in runs.values())]
    printed = {c.stat: any(f"eval/{c.stat}" in papers.get(name, {}) for name in runs) for c in filled}
    header = ["run"]
    for column in filled:
        header += [column.title, "paper"] if printed[column.stat] else [column.title]
    rows = []
    for name, figures in runs.items():
        if not any(f"eval/{column.stat}" in figures for column in filled):
            continue
        row = [name]
        for column in filled:
            row.append(estimate_cell(figures.get(f"eval/{column.stat}"), column, signed=name in signed))
            if printed[column.stat]:
                row.append(printed_cell(papers.get(name, {}).get(f"eval/{column.stat}", ()), column))
        rows.append(tuple(row))
    return Table(title=title, header=tuple(header), rows=tuple(rows))


def number_cell(value: float | None, column: Column, *, signed: bool = False) -> str:
    if value is None or not math.isfinite(value):
        return MISSING
    number = f"{value * 100 if column.percent else value:{'+' if signed else ''}.{column.digits}f}"
    return number if float(number) else number.lstrip("+-")


def printed_cell(values: Sequence[float], column: Column) -> str:
    """Return the published values of a figure, in the paper's order."""
    return ", ".join(number_cell(value, column) for value in values) or MISSING


def estimate_cell(figure: Estimate | None, column: Column, *, signed: bool = False) -> str:
    """`53.5 [50.1,57.0]`, or `+3.4 [+0.1,+6.7]` of a gain; `[–,–]` for an unbounded interval, the value alone for an
    interval of no width."""
    if figure is None:
        return MISSING
    bounds = (figure.value, figure.low, figure.high)
    value, low, high = (number_cell(bound, column, signed=signed) for bound in bounds)
    return value if low == high == value else f"{value} [{low},{high}]"
