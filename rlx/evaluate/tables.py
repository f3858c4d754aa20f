"""Results as tables: the paper's Tables 2 and 3, for any runs.

A `Table` is plain text in cells; it is shown in a terminal by rich, or written as markdown. Names of runs and values of
configurations are hostile text like any other: nothing in them is markup, in either form.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from io import StringIO
from pathlib import Path

import rich.console
import rich.table
from rich.terminal_theme import SVG_EXPORT_THEME
from rich.text import Text

from rlx.console import one_line
from rlx.evaluate.intervals import Estimate

Figures = Mapping[str, Estimate]
Published = Mapping[str, Mapping[str, float]]
"""Run to figure to the value a paper prints."""

MISSING = "–"
MARKDOWN = re.compile(r"([\\`*_\[\]<>|~&$:@!])")
"""What markdown, or HTML in it, may read as markup."""

FONT_FACE = re.compile(r"@font-face\s*\{[^}]*\}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """A figure's place in a table."""

    stat: str
    """The figure's name after its noun."""
    title: str
    percent: bool = False
    digits: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """Rows of text under a header; every row has a cell per header."""

    title: str
    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


ACCURACY = tuple(Column(stat=f"pass@{k}", title=f"Pass@{k}", percent=True) for k in (1, 4, 8, 16))
"""Table 2 of cost-aware Tool-RLOO."""

TOOL_USE = (
    Column(stat="tool_calls", title="Calls", digits=2),
    Column(stat="failed_rate", title="Failed", percent=True, digits=2),
    Column(stat="mismatch_rate", title="Mismatch", percent=True, digits=2),
    Column(stat="tool_tokens", title="Obs. tokens"),
    Column(stat="reward", title="Reward", digits=3),
)
"""Table 3 of cost-aware Tool-RLOO, and observation tokens."""


def accuracy_table(runs: Mapping[str, Figures], *, noun: str = "eval", published: Published | None = None) -> Table:
    """Pass@k in percent with 95% intervals: a row per named run."""
    return figure_table("Pass@k, % [95% interval]", ACCURACY, runs, noun=noun, published=published)


def tool_table(runs: Mapping[str, Figures], *, noun: str = "eval", published: Published | None = None) -> Table:
    """What the answers cost: calls, failed calls, mismatches, observation tokens, reward."""
    return figure_table("Tool use per episode [95% interval]", TOOL_USE, runs, noun=noun, published=published)


def figure_table(
    title: str,
    columns: Sequence[Column],
    runs: Mapping[str, Figures],
    *,
    noun: str = "eval",
    published: Published | None = None,
) -> Table:
    """A row per run, nothing empty, and what a paper printed beside what was measured."""
    papers = published or {}
    known = [c for c in columns if any(f"{noun}/{c.stat}" in figures for figures in runs.values())]
    printed = {c.stat: any(f"{noun}/{c.stat}" in papers.get(name, {}) for name in runs) for c in known}
    header = ["run"]
    for column in known:
        header += [column.title, "paper"] if printed[column.stat] else [column.title]
    rows = []
    for name, figures in runs.items():
        if not any(f"{noun}/{column.stat}" in figures for column in known):
            continue
        row = [name]
        for column in known:
            row.append(estimate_cell(figures.get(f"{noun}/{column.stat}"), column))
            if printed[column.stat]:
                row.append(number_cell(papers.get(name, {}).get(f"{noun}/{column.stat}"), column))
        rows.append(tuple(row))
    return Table(title=title, header=tuple(header), rows=tuple(rows))


def number_cell(value: float | None, column: Column) -> str:
    if value is None or not math.isfinite(value):
        return MISSING
    return f"{value * 100 if column.percent else value:.{column.digits}f}"


def estimate_cell(figure: Estimate | None, column: Column) -> str:
    """`53.5 [50.1,57.0]`, or the value alone where it has no interval."""
    if figure is None:
        return MISSING
    value, low, high = (number_cell(bound, column) for bound in (figure.value, figure.low, figure.high))
    return value if low == high == value else f"{value} [{low},{high}]"


def to_rich(table: Table) -> rich.table.Table:
    """For a terminal: cells are literal text."""
    shown = rich.table.Table(title=Text(one_line(table.title)), title_justify="left")
    for index, name in enumerate(table.header):
        shown.add_column(Text(one_line(name, 40)), justify="right" if index else "left", overflow="fold")
    for row in table.rows:
        shown.add_row(*(Text(one_line(cell, 60).replace(" [", "\n[")) for cell in row))
    return shown


def to_svg(tables: Sequence[Table], title: str = "", width: int = 100) -> str:
    """A picture of tables as a terminal shows them; it loads no font, nor anything else, from elsewhere."""
    console = rich.console.Console(record=True, file=StringIO(), width=width)
    for table in tables:
        console.print(to_rich(table))
    return FONT_FACE.sub("", console.export_svg(title=one_line(title), theme=SVG_EXPORT_THEME))


def to_markdown(table: Table) -> str:
    """For a file: a title line and a pipe table, every mark escaped."""
    lines = [
        f"**{markdown_cell(table.title)}**",
        "",
        _row(table.header),
        "|" + "|".join("---:" if index else "---" for index in range(len(table.header))) + "|",
        *(_row(row) for row in table.rows),
    ]
    return "\n".join(lines) + "\n"


def _row(cells: Sequence[str]) -> str:
    return "| " + " | ".join(markdown_cell(cell) for cell in cells) + " |"


def markdown_cell(text: str) -> str:
    return MARKDOWN.sub(r"\\\1", one_line(text))


def read_published(path: Path) -> Published:
    """The figures a paper printed: `{"source": ..., "figures": {run: {"eval/pass@1": 0.535, ...}}}`."""
    figures = json.loads(path.read_text(encoding="utf-8"))["figures"]
    return {run: {name: float(value) for name, value in row.items()} for run, row in figures.items()}
