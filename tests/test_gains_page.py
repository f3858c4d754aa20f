"""The gains over seeds of docs/intervals.md follow from each seed's figures in the reports."""

from __future__ import annotations

import re
from itertools import count, takewhile
from pathlib import Path

import numpy as np
import pytest

from rlx.evaluate.intervals import Floats
from rlx.evaluate.seeds import welch
from rlx.reproduce.files import read_reproduction

ROOT = Path(__file__).resolve().parents[1]
NUMBER = r"[-+]?\d*\.?\d+"
PAGE = (ROOT / "docs" / "intervals.md").read_text(encoding="utf-8")
ROWS = re.findall(
    rf"^\| \[(\w+)\]\(\S+\) \| (.+?) \| (Pass@\d+|Reward) \| ({NUMBER}) \[({NUMBER}), ({NUMBER})\] "
    rf"\| (?:\*\*)?\[({NUMBER}), ({NUMBER})\]",
    PAGE,
    re.MULTILINE,
)


def cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.strip().strip("|").split("|")]


def column(report: str, table: str, figure: str) -> dict[str, tuple[float, ...]]:
    """The value and ends of each row of a report's table; nothing without the table."""
    lines = report.partition(f"**{table}, points")[2].partition("\n**")[0].splitlines()
    rows = [cells(line) for line in lines if line.startswith("|")]
    return {row[0]: tuple(map(float, re.findall(NUMBER, row[rows[0].index(figure)]))) for row in rows[2:]}


def gains(report: str, name: str, figure: str) -> list[tuple[float, ...]]:
    """A gain's value and ends, first that of all seeds and then that of each."""
    found = column(report, "Gain of these seeds", figure)
    seeds = takewhile(found.__contains__, (f"{name}, seed {seed}" for seed in count()))
    return [found[name], *(found[one] for one in seeds)]


def figures_of_seeds(report: str, arm: str, evaluation: str, figure: str) -> Floats:
    """An arm's figure in each seed; a start or an untrained model is the same in all of them."""
    if not evaluation.startswith("eval"):
        return np.zeros(2)
    (told,) = re.findall(rf"^\| {arm} \| {figure}(?:, %)? \|.* 0: (.*) \|$", report, re.MULTILINE)
    return np.array([float(one.rpartition(" ")[2]) for one in f"0: {told}".split(", ")])


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row[0]}-{row[1]}-{row[2]}")
def test_a_gain_over_seeds_follows_from_the_figures_of_its_seeds(row: tuple[str, ...]) -> None:
    report, name, figure, *written = row
    value, low, high, least, most = map(float, written)
    text = (ROOT / "docs" / "results" / "reports" / report / "report.md").read_text(encoding="utf-8")
    unit = 0.1 if figure.startswith("Pass") else 0.001
    mean, *each = gains(text, name, figure)
    assert (value, low, high) == pytest.approx(mean, abs=unit / 100)
    arm, evaluation = read_reproduction(ROOT / "scripts" / "reproduce" / f"{report}.yaml").gains[name][1].split(" ")
    found = welch(np.array([gain[0] for gain in each]), figures_of_seeds(text, arm, evaluation, figure))
    reach = (found.high - found.low) / 2
    exact = column(text, "Gain over seeds", figure)
    assert not exact or (value, least, most) == pytest.approx(exact[name], abs=unit / 100)
    assert (value - reach, value + reach) == pytest.approx((least, most), abs=3 * unit), "seeds' figures are rounded"


def test_the_rows_in_bold_are_those_that_are_certain_for_these_seeds_alone() -> None:
    assert len(ROWS) == PAGE.count("/report.md) |"), "every row of the table is read"
    told = dict(zip(re.findall(r"^\| \[\w+\]\(\S+report\.md\).*$", PAGE, re.MULTILINE), ROWS, strict=True))
    for line, (*_, low, high, least, most) in told.items():
        certain, over_seeds = (float(one) * float(other) > 0 for one, other in ((low, high), (least, most)))
        assert ("**" in line) == (certain and not over_seeds)
