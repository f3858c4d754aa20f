"""Verdicts follow from intervals over seeds alone, and wider intervals decide less."""

from __future__ import annotations

from itertools import permutations, product
from math import inf

import numpy as np
import pytest

from rlx.evaluation.intervals import mean_of, share_of
from rlx.evaluation.seeds import means_over_seeds
from rlx.evaluation.tables import Column
from rlx.lab.reproduce.answers import Answer, claims_table, contradictions, expected_table, summaries
from rlx.lab.reproduce.studies import Claim
from rlx.lab.reproduce.verdicts import Verdict, combine, count_verdicts, verdict_of
from rlx.runs.summary import Estimate

ENDS = (-2.0, -1.0, -0.5, 0.0, 0.5, 1.0, 2.0)


def estimate(low: float, high: float) -> Estimate:
    return Estimate(value=(low + high) / 2 if low > -inf else 0.0, low=low, high=high)


def test_an_interval_on_one_side_decides_and_one_that_holds_both_kinds_does_not() -> None:
    assert verdict_of(estimate(0.1, 0.3), 0.05, inf) is Verdict.SUPPORTED
    assert verdict_of(estimate(-0.1, 0.3), 0.05, inf) is Verdict.UNDECIDED
    assert verdict_of(estimate(-0.1, 0.01), 0.05, inf) is Verdict.CONTRADICTED
    assert verdict_of(estimate(0.0, 0.02), -0.03, 0.03) is Verdict.SUPPORTED
    assert verdict_of(estimate(0.04, 0.2), -0.03, 0.03) is Verdict.CONTRADICTED
    assert verdict_of(estimate(0.05, 0.05), 0.05, inf) is Verdict.SUPPORTED, "the threshold is within"


def test_a_mean_alone_decides_nothing() -> None:
    for value in (-9.0, 0.0, 9.0):
        assert verdict_of(Estimate(value=value, low=-inf, high=inf), 0.0, inf) is Verdict.UNDECIDED
    assert verdict_of(None, 0.0, inf) is Verdict.UNDECIDED


def test_a_wider_interval_never_decides_what_a_narrower_one_did_not() -> None:
    random = np.random.default_rng(0)
    for _ in range(3000):
        least, most = sorted(random.choice([*ENDS, -inf, inf], 2, replace=False))
        low, high = sorted(random.normal(size=2))
        narrow = verdict_of(estimate(low, high), least, most)
        down, up = random.exponential(size=2)
        wide = verdict_of(Estimate(value=(low + high) / 2, low=low - down, high=high + up), least, most)
        assert wide is narrow or wide is Verdict.UNDECIDED
        shifted = verdict_of(estimate(low + 7, high + 7), least + 7, most + 7)
        assert shifted is narrow, "no point of the scale is special"
        mirrored = verdict_of(estimate(-high, -low), -most, -least)
        assert mirrored is narrow, "no direction is"


def test_a_verdict_of_the_contrary_claim_is_the_contrary() -> None:
    for low, high, bound in product(ENDS, ENDS, ENDS):
        if low < high and bound not in (low, high):
            claim, contrary = (verdict_of(estimate(low, high), *ends) for ends in ((bound, inf), (-inf, bound)))
            assert (claim is Verdict.SUPPORTED) == (contrary is Verdict.CONTRADICTED)
            assert (claim is Verdict.UNDECIDED) == (contrary is Verdict.UNDECIDED)


def test_a_reason_for_which_nothing_can_be_tested_goes_before_any_interval() -> None:
    for low, high in product(ENDS, ENDS):
        assert verdict_of(estimate(low, high), 0.0, inf, "ceiling") is Verdict.NOT_TESTABLE


def test_a_claim_of_several_tests_needs_all_that_are_testable() -> None:
    supported, contradicted, undecided, not_testable = Verdict
    assert combine([supported, not_testable]) is supported
    assert combine([supported, undecided]) is undecided
    assert combine([supported, contradicted, undecided]) is contradicted
    assert combine([not_testable, not_testable]) is not_testable
    for some in product(Verdict, repeat=3):
        assert len({combine(order) for order in permutations(some)}) == 1
        assert combine([*some, some[0]]) is combine(some)
        assert combine([*some, undecided]) in {combine(some), undecided}


def test_counts_name_all_four_verdicts() -> None:
    told = count_verdicts([Verdict.SUPPORTED, Verdict.UNDECIDED, Verdict.UNDECIDED])
    assert told == "1 supported, 0 contradicted, 2 undecided, 0 not testable here"


def answer(claim: Claim, low: float, high: float, sentence: str = "") -> Answer:
    column = Column(stat="reward", title="Reward", digits=3)
    return Answer(sentence=sentence, claim=claim, column=column, measured=Estimate(value=0.5, low=low, high=high))


def test_tables_show_the_mark_the_reason_and_the_note_beside_the_verdict() -> None:
    young = Claim(row="a", figure="reward", least=0, added_after_results=True, note="one seed")
    moved = Claim(row="a", figure="reward", least=2, changed_after_results="[0, 1]")
    blind = Claim(row="a", figure="reward", least=0, untestable="ceiling: 1.0 before")
    answers = [answer(young, 0.4, 0.6, "A"), answer(moved, 0.4, 0.6, "B"), answer(blind, 0.4, 0.6, "C")]
    rows = claims_table(answers).rows
    assert [row[3] for row in rows] == ["supported", "contradicted", "not testable here"]
    assert [row[4] for row in rows] == [
        "added after results; one seed",
        "changed after results: [0, 1]",
        "ceiling: 1.0 before",
    ]
    assert [row[-1] for row in expected_table(answers[1:2]).rows] == ["changed after results: [0, 1]"]
    assert [row[2] for row in rows] == ["0.500 [0.400,0.600]"] * 3
    (told,) = contradictions(answers)
    assert "B" in told
    assert "at least 2.000" in told
    assert summaries([], answers)[0].startswith("claims of the paper: 1 supported, 1 contradicted, 0 undecided, 1")


def test_means_over_seeds_stay_within_possible_values_and_a_single_run_has_none() -> None:
    values = np.array([[1.0, 1.0], [1.0, 0.0], [0.9, 1.0]])
    shares = share_of(values)
    found = means_over_seeds({"pass@1": shares, "reward": mean_of(values)}, "eval")
    assert found["eval/pass@1"].value == pytest.approx(np.mean([1, 0.5, 0.95]))
    assert found["eval/pass@1"].high == 1.0
    assert found["eval/reward"].high > 1.0, "nothing is known of the bounds of a reward"
    assert found["eval/pass@1"].low == pytest.approx(found["eval/reward"].low)
    assert means_over_seeds({"pass@1": share_of([[1, 0]])}, "eval") == {}
