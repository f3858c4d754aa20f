"""Results as tables: the paper's Tables 2 and 3, for any runs.

A `Table` is plain text in cells; it is shown in a terminal by rich, or written as markdown. Names of runs and values of
configurations are hostile text like any other: nothing in them is markup, in either form.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from io import StringIO

import rich.console
import rich.table
from rich.cells import cell_len
from rich.terminal_theme import SVG_EXPORT_THEME
from rich.text import Text

from rlx.console import one_line
from rlx.evaluate.figures import REPORTED, SPREAD
from rlx.evaluate.intervals import Estimate

Figures = Mapping[str, Estimate]
Published = Mapping[str, Mapping[str, float]]
"""Run to figure to the value a paper prints."""

MISSING = "–"
PAIRED = "; gains are paired by problem, those of percentages in points"
"""The end of a title of a table with gains."""
MARKDOWN = re.compile(
    r"[\\`*<|~$]"
    r"|(?<![^\W_])_|_(?![^\W_])"  # emphasis; an underscore inside a word is none
    r"|\](?=\()|\](?=\[)"  # links; an interval in brackets is none
    r"|&(?=#|\w+;)|^>"
    r"|:(?=//|[\w+-]*[A-Za-z_+-][\w+-]*:|\d+:)|(?<=\bwww)\.|@(?=[\w-]*\.)|(?<!\w)@",  # bare links, emoji, mentions
    re.IGNORECASE,
)
"""Characters that markdown, GitHub's included, or HTML in it would read as markup where they stand."""

FRAME = 3
"""Width that a terminal's table adds to a column: a line and two blanks."""
WORD, PIECE = re.compile(r"\S+"), re.compile(r"[^\s/_,]*[/_,]|[^\s/_,]+")
"""Words, which stay in one line where they fit, and the pieces of a name or a path, which do too."""
LABEL = 8
"""Width left to the first column where another one needs all the width."""
OF_PART = re.compile(r"eval/([^/]+)/(pass@\d+|reward|reward_std|tool/calls|(?:env|reply)/[^/]+)")
FONT_FACE = re.compile(r"@font-face\s*\{[^}]*\}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """A figure's place in a table."""

    stat: str
    """The figure's name after `eval/`."""
    title: str
    percent: bool = False
    digits: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """Rows of text under a header; every row has a cell per header."""

    title: str
    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


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
    found = {int(match[1]) for name in names if (match := re.fullmatch(r"eval/pass@(\d+)", name))}
    return tuple(Column(stat=f"pass@{k}", title=f"Pass@{k}", percent=True) for k in sorted(found))


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
    what = "Tool use per" if TOOL_USE[0] in columns else "An"
    title = f"{what} episode [95% interval]" + PAIRED * bool(gains)
    return figure_table(title, columns, runs, gains=gains, published=published)


def use_columns(runs: Iterable[Figures]) -> tuple[Column, ...]:
    """Return the columns of what was measured.

    These are the use of tools, or else turns if an episode has several; the figures of environments and protocols;
    errors if there are any; and the reward, with its deviation unless all rewards are 0 or 1.
    """
    known = [figures for figures in runs if figures]
    *tools, reward = TOOL_USE
    used = tools if any(has_value(figures, f"eval/{c.stat}") for c in tools for figures in known) else []
    if not used and any(num.value not in (0, 1) for figures in known if (num := figures.get("eval/episode/turns"))):
        used = [TURNS]
    own = sorted({name for figures in known for name in figures if name.startswith(("eval/env/", "eval/reply/"))})
    told = [Column(stat=name.removeprefix("eval/"), title=title_of(name), digits=2) for name in own]
    failed = [ERRORS] if any(has_value(figures, f"eval/{ERRORS.stat}") for figures in known) else []
    spread = [STD] if any(is_measured(figures, f"eval/{SPREAD}") for figures in known) else []
    return (*used, *told, *failed, reward, *spread)


def part_tables(runs: Mapping[str, Figures], *, published: Published | None = None, of: str = "") -> list[Table]:
    """Return a table for each pass@k, the reward, the calls if there are any, and figures that several parts report.

    Each has a column for each part of a mixture, as EARL's Tables 1, 2 and 4 do.
    """
    columns = part_columns(name for figures in runs.values() for name in figures if is_measured(figures, name))
    return [
        figure_table(
            f"{of}{of_part(stat).title} by part{', %' * told[0].percent} [95% interval]",
            told,
            runs,
            published=published,
        )
        for stat, told in columns.items()
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
    told = {match.groups() for match in map(OF_PART.fullmatch, names) if match}
    found: dict[str, list[Column]] = {}
    for part, stat in sorted(told, key=lambda one: (not one[1].startswith("pass"), len(one[1]), one[1], one[0])):
        found.setdefault(stat, []).append(replace(of_part(stat), stat=f"{part}/{stat}", title=part))
    return {stat: told for stat, told in found.items() if len(told) > 1 or not is_reported(stat)}


def of_part(stat: str) -> Column:
    """Return the column of a part's figure."""
    own = Column(stat=stat, title=title_of(stat), digits=2)
    return PART_COLUMNS.get(
        stat, own if is_reported(stat) else Column(stat=stat, title=stat.capitalize(), percent=True)
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
    known = [c for c in columns if any(f"eval/{c.stat}" in figures for figures in runs.values())]
    printed = {c.stat: any(f"eval/{c.stat}" in papers.get(name, {}) for name in runs) for c in known}
    header = ["run"]
    for column in known:
        header += [column.title, "paper"] if printed[column.stat] else [column.title]
    rows = []
    for name, figures in runs.items():
        if not any(f"eval/{column.stat}" in figures for column in known):
            continue
        row = [name]
        for column in known:
            row.append(estimate_cell(figures.get(f"eval/{column.stat}"), column, signed=name in signed))
            if printed[column.stat]:
                row.append(number_cell(papers.get(name, {}).get(f"eval/{column.stat}"), column))
        rows.append(tuple(row))
    return Table(title=title, header=tuple(header), rows=tuple(rows))


def number_cell(value: float | None, column: Column, *, signed: bool = False) -> str:
    if value is None or not math.isfinite(value):
        return MISSING
    number = f"{value * 100 if column.percent else value:{'+' if signed else ''}.{column.digits}f}"
    return number if float(number) else number.lstrip("+-")


def estimate_cell(figure: Estimate | None, column: Column, *, signed: bool = False) -> str:
    """`53.5 [50.1,57.0]`, or `+3.4 [+0.1,+6.7]` of a gain; `[–,–]` where nothing bounds it, the value alone where
    nothing varied."""
    if figure is None:
        return MISSING
    bounds = (figure.value, figure.low, figure.high)
    value, low, high = (number_cell(bound, column, signed=signed) for bound in bounds)
    return value if low == high == value else f"{value} [{low},{high}]"


@dataclass(frozen=True, slots=True)
class Fitted:
    """A table as a terminal of any width shows it: no number is broken, and what does not fit beside the rest follows
    below, under the first column again."""

    table: Table

    def __rich_console__(
        self, console: rich.console.Console, options: rich.console.ConsoleOptions
    ) -> rich.console.RenderResult:
        for part, widths in fit(self.table, options.max_width):
            yield draw(part, widths)


def to_rich(table: Table) -> Fitted:
    """For a terminal: cells are literal text."""
    header = tuple(one_line(name, 40) for name in table.header)
    rows = tuple(tuple(stack(one_line(cell, 60)) for cell in row) for row in table.rows)
    return Fitted(Table(title=one_line(table.title), header=header, rows=rows))


def stack(cell: str) -> str:
    """The interval below its value."""
    return re.sub(r" (?=\[[-+–\d])", "\n", cell)


def fit(table: Table, width: int) -> Iterator[tuple[Table, tuple[int, ...]]]:
    """Tables of the first column and as many others as go beside it, with the widths of their columns."""
    columns = list(zip(table.header, *table.rows, strict=True))
    whole = sum(widest(column) + FRAME for column in columns) < width
    most = width - 1 - 2 * FRAME
    sizes = [min(narrow(column, most - LABEL), most - 1) for column in columns]
    label = min(narrow(columns[0], most if whole else width // 3, PIECE), most - max(sizes[1:], default=0))
    taken: list[int] = []
    title = table.title
    for index in range(1, len(columns)):
        if taken and label + FRAME + sum(sizes[i] + FRAME for i in (*taken, index)) >= width:
            yield taking(table, title, taken), (label, *(sizes[i] for i in taken))
            taken, title = [], ""
        taken.append(index)
    yield taking(table, title, taken), (label, *(sizes[i] for i in taken))


def taking(table: Table, title: str, columns: Sequence[int]) -> Table:
    """The first column and some others."""

    def of(row: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(row[index] for index in (0, *columns))

    return replace(table, title=title, header=of(table.header), rows=tuple(of(row) for row in table.rows))


def widest(cells: Iterable[str]) -> int:
    """Return the width of the widest line."""
    return max(cell_len(line) for cell in cells for line in cell.split("\n"))


def narrow(cells: Sequence[str], most: int, unit: re.Pattern[str] = WORD) -> int:
    """A column's width: that of its lines, or `most`, but never less than a word, which may be a number."""
    words = [word for cell in cells for word in unit.findall(cell)]
    return max(min(widest(cells), most), widest(words) if words else 1)


def draw(table: Table, widths: Sequence[int]) -> rich.table.Table:
    shown = rich.table.Table(title=Text(table.title) if table.title else None, title_justify="left")
    for index, (name, width) in enumerate(zip(table.header, widths, strict=True)):
        shown.add_column(Text(fold(name, width)), justify="right" if index else "left", overflow="fold", width=width)
    for row in table.rows:
        shown.add_row(*(Text(fold(cell, width)) for cell, width in zip(row, widths, strict=True)))
    return shown


def fold(cell: str, width: int) -> str:
    """A word that is too long, such as a path, goes on in the next line after a mark in it."""
    return "\n".join(" ".join(break_word(word, width) for word in line.split(" ")) for line in cell.split("\n"))


def break_word(word: str, width: int) -> str:
    lines = [""]
    for piece in PIECE.findall(word) if cell_len(word) > width else [word]:
        if lines[-1] and cell_len(lines[-1] + piece) > width:
            lines.append("")
        lines[-1] += piece
    return "\n".join(lines)


def to_svg(tables: Sequence[Table], title: str = "", width: int = 100) -> str:
    """A picture of tables as a terminal shows them; it loads no font, nor anything else, from elsewhere."""
    console = rich.console.Console(record=True, file=StringIO(), width=width)
    for table in tables:
        console.print(to_rich(table))
    return FONT_FACE.sub("", console.export_svg(title=one_line(title), theme=SVG_EXPORT_THEME))


def to_markdown(table: Table) -> str:
    """Write a title line and a pipe table, in which nothing in a cell is markup."""
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


def markdown_cell(text: str, limit: int = 200) -> str:
    """Return text that markdown shows as it is, with as few backslashes as that needs."""
    return MARKDOWN.sub(r"\\\g<0>", one_line(text, limit))
