"""Pages have the verdicts, figures and gains that follow from the registry and the stored figures."""

from __future__ import annotations

import re

import pytest

from rlx.base.limits import MistakeError
from rlx.lab.reproduce.papers import PaperClaim, read_registered
from rlx.lab.reproduce.studies import Claim
from rlx.lab.reproduce.verdicts import Verdict
from scripts.claims import (
    PAGES,
    PLACE,
    TITLES,
    answers_of,
    counts_table,
    filled,
    main_claims,
    remark_on,
    reproductions,
    verdict_on,
    verdicts_table,
    views,
)
from scripts.results import FOLDER, stored_names
from tests.errors import raises_naming

SHOWN = [(place["kind"], place["name"]) for path in PAGES for place in PLACE.finditer(path.read_text(encoding="utf-8"))]


def test_pages_are_up_to_date() -> None:
    assert [path.name for path, text in views() if path.read_text(encoding="utf-8") != text] == []


def test_each_reproduction_with_claims_and_each_paper_is_on_a_page_and_readme_has_the_numbers_of_all() -> None:
    tested = {name for name in stored_names() if answers_of(name)}
    assert {name for kind, name in SHOWN if kind == "claims"} == tested
    assert sorted(name for kind, name in SHOWN if kind == "figures") == stored_names()
    assert sorted(name for kind, name in SHOWN if kind == "verdicts") == sorted([*TITLES, "all", "all"])
    assert set(TITLES) == set(read_registered())


def test_numbers_of_verdicts_are_those_of_the_lists_of_main_claims() -> None:
    *papers, whole = counts_table().rows
    for name, (_, total, *numbers) in zip(TITLES, papers, strict=True):
        verdicts = [row[2] for row in verdicts_table(name).rows]
        assert [int(total), *map(int, numbers)] == [len(verdicts), *(verdicts.count(one.value) for one in Verdict)]
    sums = [sum(int(row[column]) for row in papers) for column in range(1, len(whole))]
    assert [*map(int, whole[1:])] == sums
    assert sums[0] == sum(len(main_claims(name)) for name in TITLES)


def test_no_verdict_is_of_a_mean_alone_and_every_one_follows_from_its_interval() -> None:
    for name in reproductions().values():
        for answer in answers_of(name):
            low, high = answer.measured.low, answer.measured.high
            if answer.verdict is Verdict.SUPPORTED:
                assert answer.claim.least <= low <= high <= answer.claim.most
            if answer.verdict is Verdict.CONTRADICTED:
                assert high < answer.claim.least or low > answer.claim.most
            assert (answer.verdict is Verdict.NOT_TESTABLE) == bool(answer.claim.untestable)


def test_the_variant_with_most_seeds_decides_for_a_reproduction() -> None:
    assert reproductions()["earl_calc"] == "earl_calc_seeds"
    assert reproductions()["carl"] == "carl"
    claim = read_registered()["earl"].claims["EARL outperforms Prompt+GRPO overall"]
    assert verdict_on("EARL outperforms Prompt+GRPO overall", claim) is Verdict.SUPPORTED
    best = read_registered()["earl"].claims["EARL is the best overall by 10.7 points"]
    assert verdict_on("EARL is the best overall by 10.7 points", best) is Verdict.CONTRADICTED, "the variant lacks it"


def test_claims_that_nothing_tests_have_the_verdict_of_their_reason() -> None:
    assert verdict_on("a", PaperClaim(where="b", untested="no curve")) is Verdict.UNDECIDED
    assert verdict_on("a", PaperClaim(where="b", untestable="size")) is Verdict.NOT_TESTABLE
    assert remark_on("a", PaperClaim(where="b", untestable="size")) == "size"
    test = Claim(row="c", figure="reward", least=0)
    for wrong in ({}, {"untested": "x", "untestable": "y"}, {"tests": {"d": test}, "untested": "x"}):
        with raises_naming(ValueError, "tests", "untestable", "untested"):
            PaperClaim(where="b", **wrong)


def test_claims_of_the_registry_that_are_younger_than_their_results_are_marked_on_pages() -> None:
    marked = [row for name in TITLES for row in verdicts_table(name).rows if "after results" in row[3]]
    assert any("1.4 points" in row[3] for row in marked), "EARL's claim that was joined from two tables"
    assert sum("added after results" in answer.remark for answer in answers_of("tool_rloo")) >= 8


def test_gems_page_has_the_numbers_of_its_tests() -> None:
    verdicts = [one.verdict for name in reproductions() if name.startswith("gem_") for one in answers_of(name)]
    supported, contradicted, undecided, blind = (verdicts.count(verdict) for verdict in Verdict)
    told = re.sub(r"\s+", " ", (FOLDER / "gem.md").read_text(encoding="utf-8"))
    assert f"Of {len(verdicts)} tests here {supported} support their claim, {contradicted} contradict it" in told
    assert f"{undecided} are undecided, and {blind} cannot be made with nano" in told


def test_marks_without_their_other_are_refused() -> None:
    for page in (
        "<!-- claims: gem_guess -->\n",
        "<!-- claims: gem_guess -->\n<!-- claims: gem_sum -->\n<!-- end of claims -->\n",
        "<!-- claims: gem-guess -->\n<!-- end of claims -->\n",
        "<!-- end of claims -->\n",
        "<!-- verdicts: gem -->\n<!-- end of claims -->\n",
        "<!-- claims: credit_search -->\n<!-- end of claims -->\n",
    ):
        with pytest.raises(MistakeError):
            filled(page)
    assert "| claim |" in filled("<!-- claims: gem_guess -->\n<!-- end of claims -->\n")
    assert "| main claim |" in filled("<!-- verdicts: gem -->\n<!-- end of verdicts -->\n")
