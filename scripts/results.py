"""Figures of reproductions whose runs no longer exist (docs/results/NAME.json), as answers to claims and as tables."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from rlx.base.console import duration
from rlx.base.table import MISSING, Table, to_markdown
from rlx.evaluation.tables import Column, number_cell, of_part, printed_cell
from rlx.lab.reproduce.answers import Answer, band_answers, claim_answers, column_of, expected_table
from rlx.lab.reproduce.files import read_reproduction
from rlx.lab.reproduce.reproduction import Reproduction
from rlx.lab.reproduce.results import Figure, Results, read_results

ROOT = Path(__file__).resolve().parents[1]
FOLDER = ROOT / "docs" / "results"
BY_PART = re.compile(r"(?P<part>[^/]+)/(?P<stat>pass@\d+|reward)")
HEADER = ("row, gain or curve", "figure", "mean", "over problems", "over seeds", "of each seed", "paper")


@dataclass(frozen=True, kw_only=True)
class Stored:
    """Results of a reproduction with its declaration."""

    name: str
    reproduction: Reproduction
    results: Results

    @property
    def claims(self) -> list[Answer]:
        """Return the answers to the claims of the paper."""
        return claim_answers(self.reproduction, self.results.figures)

    @property
    def bands(self) -> list[Answer]:
        """Return the answers to the bands."""
        return band_answers(self.reproduction, self.results.figures)

    @property
    def page(self) -> str:
        """Return the place of the figures, from docs/results."""
        return f"{page_of(self.name)}#figures-of-{self.name}"


@cache
def read_stored(name: str) -> Stored:
    """Return the stored results of a reproduction."""
    return Stored(
        name=name,
        reproduction=read_reproduction(ROOT / "scripts" / "reproduce" / f"{name}.yaml"),
        results=read_results(FOLDER / f"{name}.json"),
    )


def stored_names() -> list[str]:
    """Return the names of the reproductions with stored results."""
    return sorted(path.stem for path in FOLDER.glob("*.json"))


@cache
def page_of(name: str) -> str:
    """Return the results page with the figures of a reproduction, a path from docs/results."""
    pages = [*FOLDER.glob("*.md"), FOLDER.parent / "credit.md"]
    mark = f"<!-- figures: {name} -->"
    page = next(page for page in pages if mark in page.read_text(encoding="utf-8"))
    return page.name if page.parent == FOLDER else f"../{page.name}"


def figures_block(stored: Stored, folder: Path) -> str:
    """Return the section of a results page: command, commit, cost, bands and all figures that the page shows."""
    results, costs = stored.results, stored.results.cost.values()
    commits = ", ".join(commit[:8] for commit in results.commits)
    spent = f"{sum(cost.tokens for cost in costs):,} tokens, {sum(cost.tool_calls for cost in costs):,} tool calls"
    data = f"[{stored.name}.json]({'' if folder == FOLDER else 'results/'}{stored.name}.json)"
    head = (
        f"### Figures of {stored.name}\n\n"
        f"`{results.command}` at commit {commits}: {len(results.cost)} runs, "
        f"{duration(sum(cost.seconds for cost in costs))}, {spent}. {data} has all figures and the cost of each run.\n"
    )
    tables = [expected_table(stored.bands), figures_table(stored)]
    return "\n".join([head, *(rows_in(table) for table in tables if table.rows)])


def figures_table(stored: Stored) -> Table:
    """Return a line for each figure of a row, gain or curve that a page shows."""
    return Table(title="", header=HEADER, rows=tuple(figure_rows(stored)))


def figure_rows(stored: Stored) -> Iterator[tuple[str, ...]]:
    """Yield the lines of pass@k, rewards, curves, and figures that are published, expected or claimed."""
    reproduction = stored.reproduction
    judged = {(answer.claim.row, answer.claim.figure) for answer in (*stored.claims, *stored.bands)}
    for name, figures in stored.results.figures.items():
        published = reproduction.published.get(name, {})
        is_gain = name in reproduction.gains
        for stat, figure in figures.items():
            is_measured = name not in reproduction.rows and not is_gain
            is_main = is_measured or stat == "reward" or stat.startswith("pass@")
            if is_main or stat in published or (name, stat) in judged:
                column = column_for(reproduction, stat)
                paper = printed_cell(published.get(stat, ()), column)
                yield (name, column.title, *figure_cells(figure, column, is_gain), paper)


def figure_cells(figure: Figure, column: Column, is_gain: bool) -> tuple[str, ...]:
    """Return the mean, both intervals and the values of seeds."""
    value = number_cell(figure.value, column, signed=is_gain)
    problems, seeds = (interval_cell(ends, column, is_gain) for ends in (figure.over_problems, figure.over_seeds))
    each = ", ".join(number_cell(seed, column, signed=is_gain) for seed in figure.seeds)
    return value, problems, seeds, each or MISSING


def interval_cell(ends: tuple[float, ...], column: Column, is_gain: bool) -> str:
    """Return an interval alone, such as `[16.3, 21.3]`."""
    if not ends:
        return MISSING
    low, high = (number_cell(end, column, signed=is_gain) for end in ends)
    return f"[{low}, {high}]"


def column_for(reproduction: Reproduction, stat: str) -> Column:
    """Return the title and digits of a figure; those of parts of a mixture have the part's name in front."""
    if match := BY_PART.fullmatch(stat):
        fixed = of_part(match["stat"])
        return Column(stat=stat, title=f"{fixed.title}, {match['part']}", percent=fixed.percent, digits=fixed.digits)
    return column_of(reproduction, stat)


def rows_in(table: Table) -> str:
    """Return the rows of a table as markdown, without a title."""
    return to_markdown(table).partition("\n\n")[2]
