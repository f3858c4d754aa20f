"""Tables of plain text, shown in a terminal by rich, drawn as SVG, or written as markdown.

Names of runs and values of configurations are hostile text like any other: nothing in them is markup, in any form.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from io import StringIO

import rich.console
import rich.table
from rich.cells import cell_len
from rich.terminal_theme import SVG_EXPORT_THEME
from rich.text import Text

from rlx.base.console import one_line

MISSING = "–"
"""A cell for what was not measured."""
MARKDOWN = re.compile(
    r"[\\`*<|~$]"
    r"|(?<![^\W_])_|_(?![^\W_])"  # emphasis; an underscore inside a word is none
    r"|\](?=\()|\](?=\[)"  # links; an interval in brackets is none
    r"|&(?=#|\w+;)|^>"
    r"|:(?=//|[\w+-]*[A-Za-z_+-][\w+-]*:|\d+:)|(?<=\bwww)\.|@(?=[\w-]*\.)|(?<!\w)@",  # bare links, emoji, mentions
    re.IGNORECASE,
)
"""Characters that markdown (also GitHub's) or embedded HTML would read as markup in this position."""

FRAME = 3
"""Width that a terminal's table adds to a column: a line and two blanks."""
WORD, PIECE = re.compile(r"\S+"), re.compile(r"[^\s/_,]*[/_,]|[^\s/_,]+")
"""Words, which stay in one line where they fit, and the pieces of a name or a path, which do too."""
LABEL = 8
"""Width left to the first column where another one needs all the width."""
FONT_FACE = re.compile(r"@font-face\s*\{[^}]*\}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """Rows of text under a header; every row has a cell per header."""

    title: str
    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


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
    all_fit = sum(widest(column) + FRAME for column in columns) < width
    most = width - 1 - 2 * FRAME
    sizes = [min(narrow(column, most - LABEL), most - 1) for column in columns]
    label = min(narrow(columns[0], most if all_fit else width // 3, PIECE), most - max(sizes[1:], default=0))
    indices: list[int] = []
    title = table.title
    for index in range(1, len(columns)):
        if indices and label + FRAME + sum(sizes[i] + FRAME for i in (*indices, index)) >= width:
            yield taking(table, title, indices), (label, *(sizes[i] for i in indices))
            indices, title = [], ""
        indices.append(index)
    yield taking(table, title, indices), (label, *(sizes[i] for i in indices))


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
    grid = rich.table.Table(title=Text(table.title) if table.title else None, title_justify="left")
    for index, (name, width) in enumerate(zip(table.header, widths, strict=True)):
        grid.add_column(Text(fold(name, width)), justify="right" if index else "left", overflow="fold", width=width)
    for row in table.rows:
        grid.add_row(*(Text(fold(cell, width)) for cell, width in zip(row, widths, strict=True)))
    return grid


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
    """Escape a text for a markdown cell, with the fewest backslashes."""
    return MARKDOWN.sub(r"\\\g<0>", one_line(text, limit))
