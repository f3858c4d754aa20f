"""Each estimate with an interval on a page of docs/results is also in the stored figures of the page."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from scripts.results import read_stored
from tests.loops import for_each

RESULTS = Path(__file__).resolve().parents[1] / "docs" / "results"
NUMBER = r"[-+]?\d*\.?\d+"
ESTIMATE = re.compile(rf"({NUMBER})\s*\[({NUMBER}),\s*({NUMBER})\]")
FIGURES = re.compile(r"<!-- figures: (\w+) -->")
EARLIER = re.compile(r"\bearlier\b", re.IGNORECASE)
"""Word of a paragraph whose figures are of runs before those of the report."""
WITHOUT_REPORT = {
    "gem.md": {"What was tried before"},
    "tool_rloo.md": {"What was tried with the former model"},
}
"""Sections of each page whose runs have no report; the part before the first section is the empty name."""
ONLY_IN_REPORTS = {
    "babyai.md": (".09 .06 .13; .36 .30 .41; .08 .05 .12; .37 .31 .42"),
    "carl.md": ("-.046 -.097 -.010; +.016 -.016 +.046; -.002 -.041 +.040; .23 .12 .35"),
    "tool_rloo.md": (
        "+4.0 +0.9 +7.9; -5.8 -10.1 -1.3; -12.6 -17.4 -7.6; -16.0 -21.3 -10.5; -0.14 -0.37 +0.04; +0.043 +0.0"
        "07 +0.086; +10.7 +7.4 +14.6; +1.7 -2.3 +5.8; -6.8 -11.1 -2.3; -12.5 -17.6 -7.3; -0.38 -0.59 -0.19; +"
        "0.119 +0.082 +0.160; +11.4 +8.0 +15.3; +6.8 +2.2 +11.5; +0.8 -4.2 +6.0; -2.0 -7.8 +3.9; -0.56 -0.75 "
        "-0.39; +0.124 +0.086 +0.165; +5.4 +2.6 +9.0; -0.2 -4.5 +4.4; -8.0 -13.0 -2.7; -15.5 -21.7 -9.1; -0.1"
        "4 -0.25 -0.05; +0.054 +0.024 +0.093; +10.0 +7.1 +13.8; +6.7 +2.5 +11.2; -11.0 -16.7 -5.1; +0.106 +0."
        "074 +0.144; +10.6 +7.7 +14.1; +11.6 +7.0 +16.3; +6.4 +1.1 +11.8; +0.5 -6.0 +7.1; -0.29 -0.39 -0.21; "
        "+5.4 +3.0 +8.6; +5.1 +1.0 +9.8; +0.5 -4.6 +5.9; -7.5 -14.0 -0.9; +0.053 +0.028 +0.084; +10.3 +5.9 +1"
        "5.1; +5.4 +0.1 +10.8; -3.0 -9.7 +3.7; +0.077 +0.052 +0.107; +14.4 +9.9 +19.3; +12.9 +7.2 +18.7; +7.0"
        " -0.5 +14.4; +0.086 +0.061 +0.116"
    ),
}
"""Estimates of each page that only the deleted reports (commit 423c4670) had, such as those of a single seed."""
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


def stored_estimates(name: str) -> list[Estimate]:
    """Return each stored figure with both of its intervals."""
    figures = [figure for row in read_stored(name).results.figures.values() for figure in row.values()]
    return [
        tuple(map(str, (figure.value, *ends)))
        for figure in figures
        for ends in (figure.over_problems, figure.over_seeds)
        if ends
    ]


@for_each("page", sorted(RESULTS.glob("*.md")))
def test_every_estimate_of_a_page_is_in_its_stored_figures(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    reported = [one for name in FIGURES.findall(text) for one in stored_estimates(name)]
    text = re.sub(r"<!-- figures:.*?<!-- end of figures -->", "", text, flags=re.DOTALL)
    reported += [tuple(one.split(" ")) for one in ONLY_IN_REPORTS.get(page.name, "").split("; ") if one]
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
