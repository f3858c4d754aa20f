"""The pages of docs/papers have the claims that the reports of docs/results measured."""

from __future__ import annotations

import pytest

from rlx.limits import MistakeError
from scripts.claims import PAGES, PLACE, REPORTS, claims_of, filled

REPORT = "**Claims of the paper**\n\n| claim | comes out |\n|---|---:|\n| It learns | NO |\n\n**Pass@k**\n\n| a |\n"


def test_the_claims_of_a_report_are_the_rows_of_its_table_and_no_others() -> None:
    assert claims_of(REPORT) == "| claim | comes out |\n|---|---:|\n| It learns | NO |\n"
    assert claims_of("# A report\n\n| a |\n") == ""


def test_pages_of_papers_are_up_to_date() -> None:
    assert [path.name for path in PAGES.glob("*.md") if (text := path.read_text("utf-8")) != filled(text)] == []


def test_each_report_with_claims_is_on_a_page_of_a_paper() -> None:
    shown = {place[2] for path in PAGES.glob("*.md") for place in PLACE.finditer(path.read_text(encoding="utf-8"))}
    assert shown == {path.parent.name for path in REPORTS.glob("*/report.md") if claims_of(path.read_text("utf-8"))}


@pytest.mark.parametrize(
    "page",
    [
        "<!-- claims: gem_guess -->\n",
        "<!-- claims: gem_guess -->\n<!-- claims: gem_sum -->\n<!-- end of claims -->\n",
        "<!-- claims: gem-guess -->\n<!-- end of claims -->\n",
        "<!-- end of claims -->\n",
    ],
)
def test_marks_without_their_other_are_refused(page: str) -> None:
    with pytest.raises(MistakeError):
        filled(page)
    assert "| claim |" in filled("<!-- claims: gem_guess -->\n<!-- end of claims -->\n")
