"""Gains over seeds: Welch's interval against a hand-computed one, its cuts, and what has none."""

from __future__ import annotations

from math import inf, sqrt

import numpy as np
import pytest

from rlx.evaluation.figures import Score, mean_ratios
from rlx.evaluation.seeds import gains_over_seeds, welch
from rlx.runs.summary import Estimate


def solved(num: int, of: int = 10, env: str = "") -> list[Score]:
    """A run that solves the first problems of some, in one try each."""
    return [
        Score(
            task=f"{env}{index}",
            env=env,
            num_samples=1,
            num_correct=int(index < num),
            sums={"reward": float(index < num), "tool/calls": float(num)},
        )
        for index in range(of)
    ]


def over_seeds(ours: list[list[Score]], theirs: list[list[Score]], *, paired: bool = False) -> dict[str, Estimate]:
    return gains_over_seeds(mean_ratios(ours, [1]), mean_ratios(theirs, [1]), paired=paired)


def test_the_interval_is_the_one_computed_by_hand() -> None:
    """u = 1/3 and v = 1, so the freedom is (4/3)^2 / (1/18 + 1/2) = 3.2, rounded down to 3, where t is 3.182."""
    found = welch(np.array([1.0, 2.0, 3.0]), np.array([0.0, 0.0, 3.0]))
    assert found.value == pytest.approx(1.0)
    assert found.high - found.value == pytest.approx(3.1824 * sqrt(4 / 3), rel=2e-3)
    assert found.value - found.low == pytest.approx(found.high - found.value)


def test_a_side_that_never_changes_leaves_the_freedom_of_the_other() -> None:
    """A start is the same for all seeds: t of 2 degrees is 4.303."""
    found = welch(np.array([0.5, 0.6, 0.7]), np.array([0.2, 0.2, 0.2]))
    assert found.high - found.value == pytest.approx(4.3027 * 0.1 / sqrt(3))


@pytest.mark.parametrize("gap", [0.0, 0.3])
def test_runs_that_all_say_the_same_bound_nothing(gap: float) -> None:
    found = welch(np.array([gap, gap, gap]), np.zeros(3))
    assert (found.value, found.low, found.high) == (gap, -inf, inf)


@pytest.mark.parametrize("huge", [1e80, 1e200, 1e307])
def test_figures_too_large_to_square_bound_nothing(huge: float) -> None:
    found = welch(np.array([huge, 2 * huge]), np.array([1.0, 2.0]))
    assert (found.value, found.low, found.high) == (1.5 * huge, -inf, inf)


def test_the_interval_holds_the_gain_of_all_seeds_about_as_often_as_it_says() -> None:
    """Rounding the freedom down makes it wider than need be, so it holds the truth a little more often."""
    generator = np.random.default_rng(0)
    drawn = [
        welch(1 + generator.standard_normal(3), spread * generator.standard_normal(4))
        for spread in (0.2, 1.0, 3.0)
        for _ in range(2000)
    ]
    share = np.mean([found.low <= 1 <= found.high for found in drawn])
    assert 0.94 <= share <= 0.985


def test_a_single_run_on_either_side_has_no_gain_over_seeds() -> None:
    two, one = [solved(3), solved(5)], [solved(2)]
    assert over_seeds(two, one) == over_seeds(one, two) == {}


def test_gains_have_the_value_of_the_means_and_are_cut_to_what_is_possible() -> None:
    found = over_seeds([solved(10), solved(6)], [solved(1), solved(3)])
    assert found["gain/pass@1"].value == pytest.approx(0.6)
    assert found["gain/pass@1"].high == 1.0, "a share gains one at most"
    assert found["gain/reward"].high > 1.0, "this reward has no bounds"
    assert found["gain/tool/calls"].value == pytest.approx(6.0)


def test_two_evaluations_of_the_same_runs_are_compared_run_by_run() -> None:
    """Shares .9, .6 and .4 after .6, .4 and .1 are gains of .3, .2 and .3."""
    before, after = [solved(num) for num in (6, 4, 1)], [solved(num) for num in (9, 6, 4)]
    alone, paired = (over_seeds(after, before, paired=paired)["gain/pass@1"] for paired in (False, True))
    assert paired.value == pytest.approx(alone.value) == pytest.approx(0.8 / 3)
    assert paired.high - paired.value == pytest.approx(4.3027 * sqrt(0.01 / 3) / sqrt(3))
    assert alone.low < 0 < paired.low


def test_overall_is_bounded_by_the_runs_own_means_of_their_parts() -> None:
    def run(a: int, b: int) -> list[Score]:
        return [*solved(a, 4, "a"), *solved(b, 20, "b")]

    ours, theirs = [run(4, 10), run(2, 14)], [run(1, 5), run(1, 3)]
    found = over_seeds(ours, theirs)["gain/overall/pass@1"]
    by_hand = welch(np.array([0.75, 0.6]), np.array([0.25, 0.2]))
    assert (found.value, found.low) == pytest.approx((by_hand.value, by_hand.low))
