"""Figures of the stored reports (docs/results/reports), whose runs no longer exist: means, and intervals over seeds.

An interval over seeds is in the report itself (of gains, rows, comparisons), or follows from the figures of each seed.
These are in the report, or on a results page (docs/results/seeds.yaml). Any other figure has a mean alone.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import count, takewhile
from math import inf, isnan, nan
from pathlib import Path
from typing import Any

import numpy as np

from rlx.evaluate.intervals import Floats, within
from rlx.evaluate.seeds import welch
from rlx.evaluate.tables import OF_PART, TOOL_USE, Column, of_part, title_of
from rlx.record.plain_yaml import parse_small
from rlx.reproduce.answers import Answer, band_answers, bands_of, claim_answers, column_of
from rlx.reproduce.files import read_reproduction
from rlx.reproduce.reproduction import Reproduction
from rlx.runs.summary import Estimate
from rlx.table import MISSING

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "docs" / "results"
REPORTS = RESULTS / "reports"
TABLE = re.compile(r"^\*\*(?P<title>.+)\*\*\n\n(?P<rows>(?:\|.*\n)+)", re.MULTILINE)
NUMBER = re.compile(r"[-+]?\d*\.?\d+")
SEED = re.compile(r"\d+: (\S+?)(?:,|$)")

Rows = Mapping[str, Mapping[str, str]]
"""Cells of a table by row and column."""


def cells_of(line: str) -> list[str]:
    """Return the cells of a line of a markdown table."""
    return [cell.strip().replace("\\", "") for cell in re.split(r"(?<!\\)\|", line.strip().strip("|"))]


def rows_of(text: str) -> list[list[str]]:
    """Return the lines of a markdown table without its rule; the first is the header."""
    header, _, *rows = map(cells_of, text.splitlines())
    return [header, *rows]


@dataclass(frozen=True, kw_only=True)
class Stored:
    """A stored report with the reproduction that it is of."""

    name: str
    reproduction: Reproduction
    text: str
    seeds: Mapping[str, Mapping[str, Sequence[float]]]
    """Figures of each seed by run and figure, from the results page."""

    def table(self, title: str, *, key: int = 0) -> Rows:
        """Return the first table whose title begins so, by the cells of a column."""
        for match in TABLE.finditer(self.text):
            if match["title"].startswith(title):
                header, *rows = rows_of(match["rows"])
                return {row[key]: dict(zip(header, row, strict=False)) for row in reversed(rows)}
        return {}

    def cell(self, kind: str, name: str, stat: str) -> str:
        """Return the cell of a figure in the tables of a kind, such as `Gain over seeds, `; empty without one."""
        titles, column = place_of(self.reproduction, stat)
        cells = [self.table(f"{kind}{title}").get(name, {}).get(column, "") for title in titles]
        return next((cell for cell in cells if cell not in ("", MISSING)), "")

    def mean(self, name: str, stat: str) -> float:
        """Return the mean over the seeds of a row, gain, comparison or measured policy; nan where none is stored."""
        if not isnan(stated := self.claimed(name, stat)):
            return stated
        kind = "Gain of these seeds, " if name in self.reproduction.gains else ""
        if cell := self.cell(kind, name, stat):
            return numbers_in(cell)[0] * scale_of(self.reproduction, stat)
        if name in self.reproduction.comparisons:
            return numbers_in(self.table("Means over all steps")[name]["measured"])[0]
        if name not in self.reproduction.gains:
            return nan
        ours, theirs = (self.mean(row, stat) for row in map(self.row_of, self.reproduction.gains[name]))
        return ours - theirs

    def claimed(self, name: str, stat: str) -> float:
        """Return the mean that the report's own tables of claims and bands state, with more digits than others have."""
        column = column_of(self.reproduction, stat)
        for title, measured in (("Claims of the paper", "means"), ("Expected of this reproduction", "figure")):
            for row in self.rows(title):
                is_it = row[measured].startswith(f"{column.title} of {name} at ") or (
                    row[measured] == column.title and row.get("row") == name
                )
                numbers = numbers_in(next(cell for head, cell in row.items() if head.startswith("measured")))
                if is_it and numbers:
                    return numbers[0] * (0.01 if column.percent else 1.0)
        return nan

    def rows(self, title: str) -> list[dict[str, str]]:
        """Return the rows of the first table whose title begins so."""
        for match in TABLE.finditer(self.text):
            if match["title"].startswith(title):
                header, *rows = rows_of(match["rows"])
                return [dict(zip(header, row, strict=False)) for row in rows]
        return []

    def row_of(self, place: str) -> str:
        """Return the row of an evaluation such as `carl eval-9`."""
        return next((row for row, other in self.reproduction.rows.items() if other == place), "")

    def over_seeds(self, name: str, stat: str) -> Estimate | None:
        """Return a figure with its interval over seeds; None where a mean alone is stored."""
        kind = "Gain over seeds, " if name in self.reproduction.gains else "Mean over seeds, "
        scale = scale_of(self.reproduction, stat)
        if name in self.reproduction.comparisons:
            value, *ends = numbers_in(self.table("Means over all steps")[name]["measured"])
            return Estimate(value=value, low=ends[0], high=ends[1]) if ends else None
        if len(numbers := numbers_in(self.cell(kind, name, stat))) == 3:
            value, low, high = (number * scale for number in numbers)
            return Estimate(value=value, low=low, high=high)
        return self.from_each_seed(name, stat)

    def from_each_seed(self, name: str, stat: str) -> Estimate | None:
        """Return the interval that follows from the figures of each seed."""
        pair = self.reproduction.gains.get(name)
        ours = self.seeds_of_gain(name, stat) if pair else self.seeds_of(self.reproduction.rows.get(name, " "), stat)
        if ours is None and pair:
            ours = self.seeds_of(pair[0], stat)
        theirs = self.seeds_of(pair[1], stat) if pair else np.zeros(2)
        if ours is None or theirs is None or len(ours) < 2 or len(theirs) < 2:
            return None
        interval, mean = welch(ours, theirs), self.mean(name, stat)
        share = "pass@" in stat or stat.startswith("env/f1")
        reach = (interval.high - interval.low) / 2
        ends = Estimate(value=mean, low=mean - reach, high=mean + reach)
        return within(ends, (-1.0 if pair else 0.0) if share else -inf, 1.0 if share else inf)

    def seeds_of_gain(self, name: str, stat: str) -> Floats | None:
        """Return what each seed gains over the mean of the other's, which differs from its figure by a constant."""
        titles, column = place_of(self.reproduction, stat)
        for rows in (self.table(f"Gain of these seeds, {title}") for title in titles):
            seeds = [*takewhile(rows.__contains__, (f"{name}, seed {seed}" for seed in count()))]
            cells = [rows[seed].get(column, "") for seed in seeds]
            if len(cells) > 1 and all(map(numbers_in, cells)):
                return np.array([numbers_in(cell)[0] for cell in cells]) * scale_of(self.reproduction, stat)
        return None

    def seeds_of(self, place: str, stat: str) -> Floats | None:
        """Return an evaluation's figure in each seed, up to a constant where all seeds share the policy."""
        run, _, evaluation = place.partition(" ")
        if not evaluation.startswith("eval"):
            return np.zeros(2) if evaluation in self.shared else None
        if stat in self.seeds.get(run, {}):
            return np.array(self.seeds[run][stat])
        for gain, (ours, theirs) in self.reproduction.gains.items():
            relative = (
                self.seeds_of_gain(gain, stat) if ours == place and theirs.partition(" ")[2] in self.shared else None
            )
            if relative is not None:
                return relative
        first = next(other for other in self.reproduction.rows.values() if other.startswith(f"{run} eval"))
        title = {"pass@1": "Pass@1, %", "reward": "Reward"}.get(stat)
        for row in self.rows("Spread over seeds"):
            if row["runs"] == run and row["figure"] == title and place == first:
                return np.array([float(value) for value in SEED.findall(row["of each seed"])]) * scale_of(
                    self.reproduction, stat
                )
        return None

    @property
    def shared(self) -> set[str]:
        """Return the evaluations whose policy is one for all seeds: that of the start and of the untrained model."""
        places = [
            *self.reproduction.rows.values(),
            *(place for pair in self.reproduction.gains.values() for place in pair),
        ]
        return {place.partition(" ")[2] for place in places if not place.partition(" ")[2].startswith("eval")}

    def answers(self) -> tuple[list[Answer], list[Answer]]:
        """Return the answers to the bands and to the claims."""
        wanted = [
            (claim.of, claim.figure) for claim in (*self.reproduction.claims.values(), *bands_of(self.reproduction))
        ]
        means: dict[str, dict[str, Estimate]] = {}
        ends: dict[str, dict[str, Estimate]] = {}
        for name, stat in wanted:
            value, interval = self.mean(name, stat), self.over_seeds(name, stat)
            means.setdefault(name, {})[f"eval/{stat}"] = Estimate(value=value, low=-inf, high=inf)
            if interval is not None:
                ends.setdefault(name, {})[f"eval/{stat}"] = interval
        return band_answers(self.reproduction, means, ends), claim_answers(self.reproduction, means, ends)


def read_stored(name: str) -> Stored:
    """Return a stored report."""
    pages: Mapping[str, Any] = parse_small((RESULTS / "seeds.yaml").read_text(encoding="utf-8"))
    return Stored(
        name=name,
        reproduction=read_reproduction(ROOT / "scripts" / "reproduce" / f"{name}.yaml"),
        text=(REPORTS / name / "report.md").read_text(encoding="utf-8"),
        seeds=pages.get(name, {}),
    )


def place_of(reproduction: Reproduction, stat: str) -> tuple[tuple[str, ...], str]:
    """Return the beginnings of the titles of tables that may hold a figure, and its column."""
    if match := OF_PART.fullmatch(f"eval/{stat}"):
        return (f"{of_part(match[2]).title} by part",), match[1]
    column = column_of(reproduction, stat)
    title = column.title if column.stat == stat and (is_pass(stat) or column in TOOL_USE) else title_of(stat)
    return ("points", "Pass@k", "Tool use", "An episode"), "Turns" if stat == "episode/turns" else title


def is_pass(stat: str) -> bool:
    return stat.startswith("pass@")


def scale_of(reproduction: Reproduction, stat: str) -> float:
    """Return the factor from a table's cell to the figure."""
    match = OF_PART.fullmatch(f"eval/{stat}")
    column: Column = of_part(match[2]) if match else column_of(reproduction, stat)
    return 0.01 if column.percent else 1.0


def numbers_in(cell: str) -> list[float]:
    """Return the numbers of a cell: a value, and the ends of its interval where it has some."""
    return [float(number) for number in NUMBER.findall(cell)]
