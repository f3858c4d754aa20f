"""Bring the stored reports (docs/results/reports) up to the registry: verdicts, published figures and possible values.

Their runs no longer exist, so what changes is what follows from a report's own figures and the registry: the tables of
claims and bands, the columns and the table of published figures, and intervals of curves beyond possible values.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from rlx.evaluate.intervals import within
from rlx.evaluate.tables import OF_PART, TURNS, estimate_cell, number_cell, of_part, printed_cell, title_of
from rlx.report.curves import possible_values
from rlx.report.panels import axis_of
from rlx.report.paper import agent_name
from rlx.reproduce.answers import BANDS, CLAIMS, PLAIN, claims_table, column_of, expected_table
from rlx.runs.summary import Estimate
from rlx.table import MISSING, Table, markdown_cell, to_markdown
from scripts.stored import TABLE, Stored, numbers_in, read_stored, rows_of

BESIDE = "Published values beside those measured [95% interval]"
ENDS = "Ends of the curves [95% interval over seeds]"
PAPER = "paper"


def refreshed(name: str) -> str:
    """Return the text of a stored report with the verdicts and the published figures of now."""
    stored = read_stored(name)
    bands, claims = stored.answers()
    tables = {BANDS: expected_table(bands), CLAIMS: claims_table(claims), BESIDE: beside(stored)}
    text = TABLE.sub(lambda match: with_rows(match, stored, tables), stored.text)
    return text.replace(
        f"- Published: {source_of(text)}",
        f"- Published: {stored.reproduction.source}. {stored.reproduction.setting}",
        1,
    )


def source_of(text: str) -> str:
    """Return the line on the source of the published figures."""
    line = re.search(r"^- Published: (.*)$", text, re.MULTILINE)
    return line[1] if line else "nothing"


def with_rows(match: re.Match[str], stored: Stored, tables: dict[str, Table]) -> str:
    """Return a table of a report as it is now."""
    title = match["title"]
    if title in tables and tables[title].rows:
        return to_markdown(tables[title])
    if title == ENDS:
        return edited(match, cut_row)
    header = rows_of(match["rows"])[0]
    if header[0] == "run" and PAPER in header:
        return edited(match, lambda header, row: paper_row(stored, title, header, row))
    return match[0]


def edited(match: re.Match[str], edit: Callable[[Sequence[str], list[str]], list[str]]) -> str:
    """Return a table whose rows an editor changed; a row that stays keeps its text."""
    first, rule, *lines = match["rows"].splitlines()
    header, *rows = rows_of(match["rows"])
    changed = [
        line if edit(header, row) == row else line_of(edit(header, row)) for line, row in zip(lines, rows, strict=True)
    ]
    return f"**{match['title']}**\n\n" + "\n".join([first, rule, *changed]) + "\n"


def line_of(cells: Sequence[str]) -> str:
    """Return a line of a markdown table."""
    return f"| {' | '.join(markdown_cell(cell) for cell in cells)} |"


def cut_row(header: Sequence[str], row: list[str]) -> list[str]:
    """Cut the interval of a curve's end to the possible values of its metric."""
    metric, numbers = row[header.index("metric")].split(" ")[0], numbers_in(row[-1])
    if len(numbers) != 3:
        return row
    value, low, high = numbers
    interval = within(Estimate(value=value, low=low, high=high), *possible_values(metric))
    return [*row[:-1], estimate_cell(interval, PLAIN)] if (interval.low, interval.high) != (low, high) else row


def paper_row(stored: Stored, title: str, header: Sequence[str], row: list[str]) -> list[str]:
    """Put the published figures into the columns of a row that are the paper's."""
    published = printed_of(stored, row[0])
    cells = [*row]
    for index in (index for index, head in enumerate(header) if head == PAPER):
        cells[index] = next(
            (
                printed_cell(values, axis_of(stat))
                for stat, values in published.items()
                if is_at(stored, stat, title, header[index - 1])
            ),
            MISSING,
        )
    return cells


def printed_of(stored: Stored, name: str) -> dict[str, Sequence[float]]:
    """Return the published figures of a row, or of the run whose trained policy is that row."""
    if name in stored.reproduction.published:
        return dict(stored.reproduction.published[name])
    rows = [
        row for row, place in stored.reproduction.rows.items() if place.partition(" ")[0] == name and "eval-" in place
    ]
    return dict(stored.reproduction.published.get(rows[0], {})) if rows else {}


def part_of(stat: str) -> re.Match[str] | None:
    return OF_PART.fullmatch(f"eval/{stat}")


def is_at(stored: Stored, stat: str, title: str, column: str) -> bool:
    """Tell whether a figure stands in this column of a table."""
    if match := part_of(stat):
        return title.startswith(f"{of_part(match[2]).title} by part") and column == match[1]
    if "by part" in title:
        return False
    fixed = column_of(stored.reproduction, stat)
    plain = fixed.title if fixed.title != stat else TURNS.title if stat == TURNS.stat else title_of(stat)
    return column == plain


def beside(stored: Stored) -> Table:
    """Return the published figures beside those measured; a line that stays keeps its digits."""
    lines = {tuple(line.values())[:3]: tuple(line.values()) for line in stored.rows(BESIDE)}
    rows = []
    for row, place in stored.reproduction.rows.items():
        for stat, values in stored.reproduction.published.get(row, {}).items():
            run, column = place.partition(" ")[0], axis_of(stat)
            names = [agent_name(row, index, values) for index in range(1, len(values) + 1)]
            same = [lines[name, run, column.title] for name in (row, names[0]) if (name, run, column.title) in lines]
            cell = same[0][3] if same else stored.cell("", row, stat)
            for name, value in zip(names, values, strict=True):
                line = (name, run, *cells_beside(stat, cell, value)) if cell else ()
                unchanged = [(name, *old[1:]) for old in same if line and old[4] == line[4]]
                rows += unchanged[:1] or ([line] if line else [])
    header = ("paper's row", "runs here", "figure", "measured", PAPER, "difference", "interval covers it")
    return Table(title=BESIDE, header=header, rows=tuple(rows))


def cells_beside(stat: str, cell: str, value: float) -> tuple[str, ...]:
    """Return the cells of a published figure beside the measured cell of a report."""
    column, (measured, *ends) = axis_of(stat), numbers_in(cell)
    scale = 100.0 if column.percent else 1.0
    paper = value * scale
    covers = MISSING if MISSING in cell else "yes" if not ends and measured == paper else "no"
    if ends:
        covers = "yes" if ends[0] <= paper <= ends[1] else "no"
    gap = number_cell((measured - paper) / scale, column, signed=True)
    return column.title, cell, number_cell(value, column), gap, covers
