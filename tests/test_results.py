"""Each estimate with an interval on a page of docs/results is also in one of the reports that the page links to."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

RESULTS = Path(__file__).resolve().parents[1] / "docs" / "results"
NUMBER = r"[-+]?\d*\.?\d+"
ESTIMATE = re.compile(rf"({NUMBER})\s*\[({NUMBER}),\s*({NUMBER})\]")
REPORT = re.compile(r"reports/\w+/report\.md")
EARLIER = re.compile(r"\bearlier\b", re.IGNORECASE)
"""Word of a paragraph whose figures are of runs before those of the report."""
WITHOUT_REPORT = {
    "gem.md": {"What was tried before"},
    "tool_rloo.md": {"What was tried with the former model"},
}
"""Sections of each page whose runs have no report; the part before the first section is the empty name."""
FACTORS = (1, 100, 0.01, -1, -100)
"""Factors between a page and its report: percentages and shares, and a loss that a page states as positive."""

Estimate = tuple[str, ...]


def estimates(text: str) -> list[Estimate]:
    """Return each value with its two limits, as they are written."""
    return [match.groups() for match in ESTIMATE.finditer(re.sub(r"[\\*]", "", text))]


def paragraphs(page: str) -> Iterator[tuple[str, str]]:
    """Yield the name of the section and the text of each paragraph, list item and table row."""
    for section in re.split(r"^## ", page, flags=re.MULTILINE):
        name = section.partition("\n")[0] if not section.startswith("# ") else ""
        for text in re.split(r"\n\s*\n|\n(?=- |\|)", section):
            yield name, text


def half_unit(number: str) -> float:
    """Return the largest error that rounding to these digits makes."""
    return 0.5 * 10.0 ** -len(number.partition(".")[2])


def is_rounded(written: Estimate, reported: Estimate, factor: float) -> bool:
    """Tell whether a page's estimate is that of a report, times a factor, up to the rounding of both."""
    value, low, high = reported
    ordered = (value, low, high) if factor > 0 else (value, high, low)
    return all(
        abs(float(one) - factor * float(other)) <= half_unit(one) + abs(factor) * half_unit(other) + 1e-9
        for one, other in zip(written, ordered, strict=True)
    )


@pytest.mark.parametrize("page", sorted(RESULTS.glob("*.md")), ids=lambda page: page.stem)
def test_every_estimate_of_a_page_is_in_one_of_its_reports(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    reported = [one for name in set(REPORT.findall(text)) for one in estimates((RESULTS / name).read_text("utf-8"))]
    without = WITHOUT_REPORT.get(page.name, set())
    assert without <= {name for name, _ in paragraphs(text)}
    strange = [
        (name, one)
        for name, part in paragraphs(text)
        if name not in without and not EARLIER.search(part)
        for one in estimates(part)
        if not any(is_rounded(one, other, factor) for other in reported for factor in FACTORS)
    ]
    assert not strange


def test_rounding_and_percentages_are_seen_through_and_another_value_is_not() -> None:
    assert is_rounded(("5.41", "4.99", "5.80"), ("5.410", "4.993", "5.803"), 1)
    assert is_rounded(("3.2", "1.5", "5.2"), ("-3.2", "-5.2", "-1.5"), -1)
    assert is_rounded((".285", ".219", ".369"), ("28.5", "21.9", "36.9"), 0.01)
    assert not is_rounded(("5.42", "4.99", "5.80"), ("5.410", "4.993", "5.803"), 1)
    assert not is_rounded(("3.2", "1.5", "5.2"), ("-3.2", "-5.2", "-1.5"), 1)
