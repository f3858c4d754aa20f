"""Tables and claims of the papers, from the registry (rlx/settings/papers.py).

Keys of a file:

    tables    by the paper's own name, such as "Table 2": `where` it stands; `columns`, each [printed title, figure of
              rlx, factor to rlx's unit, word that tells apart the rows of several columns], of which the title alone
              is needed; `rows`, by printed name the printed numbers, null where the paper has none. A name may be
              "group / row": `parts` names the part of a mixture that a group is.
    claims    by sentence: `where` it stands, `main` if abstract or conclusions state it, and either `tests`, by name of
              a reproduction (rlx.lab.reproduce.studies.Claim), or why it is `untestable` here, or `untested` so far

A reproduction names a paper and refers to it: `published: {row: ["Table 2: Tool-RLOO"]}` and `claims: [sentence]`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from rlx.base.limits import near
from rlx.lab.reproduce.studies import CLAIM, Claim
from rlx.runs.form import FLAG, STRING, CodecError, Form, made, named, number, require_list
from rlx.settings.papers import read_papers

Rows = Mapping[str, Mapping[str, float]]
"""Figures by row, in rlx's names and units."""
PLACES = 10
"""Decimal places of a figure: enough for what a paper prints, and fewer than a factor's rounding spoils."""


@dataclass(frozen=True, kw_only=True)
class PrintedColumn:
    """Column of a paper's table."""

    title: str
    figure: str = ""
    """Name of the figure in rlx; empty for a figure that rlx does not have."""
    factor: float = 1.0
    side: str = ""
    """Word after a row's name, where several columns hold one figure."""


@dataclass(frozen=True, kw_only=True)
class PrintedTable:
    """Table of a paper as it is printed."""

    where: str
    columns: tuple[PrintedColumn, ...]
    rows: Mapping[str, tuple[float | None, ...]]
    parts: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name, values in self.rows.items():
            if len(values) != len(self.columns):
                raise ValueError(f"{name:.60}: {len(values)} numbers for {len(self.columns)} columns")

    @property
    def figures(self) -> Rows:
        """Return the figures of each row and side."""
        figures: dict[str, dict[str, float]] = {}
        for name, values in self.rows.items():
            group, _, last = name.rpartition(" / ")
            part = self.parts.get(group, "")
            for column, value in zip(self.columns, values, strict=True):
                if column.figure and value is not None:
                    row = ", ".join(word for word in (last if part else name, column.side) if word)
                    stat = f"{part}/{column.figure}" if part else column.figure
                    figures.setdefault(row, {})[stat] = round(value * column.factor, PLACES)
        return figures


@dataclass(frozen=True, kw_only=True)
class PaperClaim:
    """Sentence of a paper, and the tests of it."""

    where: str
    main: bool = False
    """Flag: the abstract or the conclusions state it."""
    tests: Mapping[str, Claim] = field(default_factory=dict)
    """Keys are names of reproductions."""
    untestable: str = ""
    """Reason for which nothing here can test it."""
    untested: str = ""
    """Reason for which no reproduction decides the claim yet."""

    def __post_init__(self) -> None:
        if [bool(self.tests), bool(self.untestable), bool(self.untested)].count(True) != 1:
            raise ValueError("expected one of tests, untestable and untested")


@dataclass(frozen=True, kw_only=True)
class Registered:
    """Statements of the registry on a paper."""

    tables: Mapping[str, PrintedTable]
    claims: Mapping[str, PaperClaim]

    def published(self, references: Sequence[str]) -> dict[str, list[float]]:
        """Return the figures of rows such as `Table 2: Tool-RLOO`, in their order."""
        figures: dict[str, list[float]] = {}
        for reference in references:
            table, _, row = reference.partition(": ")
            if table not in self.tables:
                raise ValueError(f"{reference:.80}: the paper has no {table:.60}{near(table, self.tables)}")
            rows = self.tables[table].figures
            if row not in rows:
                raise ValueError(f"{reference:.80}: {table} has no row {row:.60}{near(row, rows)}")
            for stat, value in rows[row].items():
                figures.setdefault(stat, []).append(value)
        return figures

    def claims_of(self, reproduction: str, sentences: Sequence[str]) -> dict[str, Claim]:
        """Return each claim with its test in a reproduction."""
        tests = {}
        for sentence in sentences:
            claim = self.claims.get(sentence)
            if claim is None:
                raise ValueError(f"claims: the paper has no {sentence!r:.80}{near(sentence, self.claims)}")
            if reproduction not in claim.tests:
                names = ", ".join(claim.tests) or "none"
                raise ValueError(f"claims: {sentence:.80}: its tests are of {names}, not of {reproduction:.60}")
            tests[sentence] = claim.tests[reproduction]
        return tests


def read_column(value: Any, where: str) -> PrintedColumn:
    """Read [title, figure, factor, side]."""
    cells = require_list(value, where)
    title, figure, factor, side = [*cells, *["", "", 1.0, ""][len(cells) :]][:4]
    if len(cells) > 4 or not all(isinstance(word, str) for word in (title, figure, side)):
        raise CodecError(f"{where}: expected [title, figure, factor, side]")
    return PrintedColumn(title=title, figure=figure, factor=number(factor, where), side=side)


def read_cells(value: Any, where: str) -> tuple[float | None, ...]:
    return tuple(None if cell is None else number(cell, where) for cell in require_list(value, where))


COLUMNS = Form(list, lambda value, where: tuple(read_column(column, where) for column in require_list(value, where)))
TABLE = made(
    PrintedTable,
    where=STRING,
    columns=COLUMNS,
    rows=named(Form(list, read_cells)),
    parts=named(STRING).unless({}),
)
PAPER_CLAIM = made(
    PaperClaim,
    where=STRING,
    main=FLAG.unless(False),
    tests=named(CLAIM).unless({}),
    untestable=STRING.unless(""),
    untested=STRING.unless(""),
)


def register(name: str, tree: Mapping[str, Any]) -> Registered:
    """Return the tables and claims of a file of the registry; a ValueError names the place that is wrong."""
    return Registered(
        tables=named(TABLE).read(tree.get("tables", {}), f"{name}: tables"),
        claims=named(PAPER_CLAIM).read(tree.get("claims", {}), f"{name}: claims"),
    )


@cache
def read_registered() -> Mapping[str, Registered]:
    """Return the tables and claims of each paper, by the paper's name."""
    return {name: register(name, tree) for name, tree in read_papers().items()}


def find_registered(name: str) -> Registered:
    """Return the registry's file of a paper; ValueError for an unknown name."""
    papers = read_registered()
    if name not in papers:
        raise ValueError(f"paper={name:.60}: there is no such paper{near(name, papers)}")
    return papers[name]
