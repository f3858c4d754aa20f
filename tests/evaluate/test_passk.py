from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlx.evaluate.passk import Estimate, Ratio, compare, estimate, estimates, mean_of, paired, pass_at_k


@pytest.mark.parametrize(
    ("num_samples", "num_correct", "k", "expected"),
    [
        (4, 1, 1, 1 / 4),
        (4, 1, 2, 1 / 2),
        (4, 2, 2, 5 / 6),
        (5, 2, 3, 9 / 10),
        (16, 3, 4, 1105 / 1820),
        (16, 1, 16, 1),
    ],
)
def test_pass_at_k_equals_the_hand_computed_chance(num_samples: int, num_correct: int, k: int, expected: float) -> None:
    assert pass_at_k(num_samples, num_correct, k) == expected


@given(st.integers(1, 8), st.data())
def test_pass_at_k_is_the_share_of_subsets_with_a_correct_sample(num_samples: int, data: st.DataObject) -> None:
    num_correct = data.draw(st.integers(0, num_samples))
    k = data.draw(st.integers(1, num_samples))
    subsets = list(combinations(range(num_samples), k))
    assert pass_at_k(num_samples, num_correct, k) == sum(min(s) < num_correct for s in subsets) / len(subsets)


@given(st.integers(1, 400), st.data())
def test_pass_at_k_stays_in_bounds_and_never_falls_with_k(num_samples: int, data: st.DataObject) -> None:
    num_correct = data.draw(st.integers(0, num_samples))
    k = data.draw(st.integers(1, num_samples))
    assert 0 <= pass_at_k(num_samples, num_correct, 1) <= pass_at_k(num_samples, num_correct, k) <= 1
    assert pass_at_k(num_samples, num_correct, 1) == num_correct / num_samples
    assert pass_at_k(num_samples, num_correct, num_samples) == float(num_correct > 0)


def test_pass_at_k_keeps_its_precision_for_many_samples() -> None:
    assert pass_at_k(10_000, 1, 100) == 0.01
    assert pass_at_k(10_000, 5_000, 5_000) == 1.0


@pytest.mark.parametrize(("num_samples", "num_correct", "k"), [(4, 5, 1), (4, -1, 1), (4, 1, 0), (4, 1, 5)])
def test_pass_at_k_refuses_what_cannot_be(num_samples: int, num_correct: int, k: int) -> None:
    with pytest.raises(ValueError, match="pass@"):
        pass_at_k(num_samples, num_correct, k)


def test_an_interval_covers_the_truth_about_95_times_in_100() -> None:
    generator = np.random.default_rng(7)
    truth, trials, covered = 0.3, 300, 0
    for trial in range(trials):
        found = estimate(generator.random(80) < truth, num_resamples=1_000, seed=trial)
        covered += found.low <= truth <= found.high
    assert 0.90 <= covered / trials <= 0.98


def test_an_interval_has_the_width_of_the_normal_one_when_problems_are_many() -> None:
    generator = np.random.default_rng(3)
    draws = generator.normal(1.0, 2.0, size=1_000)
    found = estimate(draws)
    half = 1.96 * draws.std() / np.sqrt(len(draws))
    assert found.value == pytest.approx(draws.mean(), abs=1e-12)
    assert found.high - found.low == pytest.approx(2 * half, rel=0.05)


def test_one_problem_or_equal_problems_give_an_interval_of_no_width() -> None:
    assert estimate([0.25]) == Estimate(value=0.25, low=0.25, high=0.25)
    assert estimate([1.0] * 50) == Estimate(value=1.0, low=1.0, high=1.0)


def test_the_same_seed_gives_the_same_interval_and_blocks_do_not_matter(monkeypatch: pytest.MonkeyPatch) -> None:
    draws = np.random.default_rng(0).random(40)
    first = estimate(draws, num_resamples=500, seed=5)
    assert estimate(draws, num_resamples=500, seed=5) == first
    assert estimate(draws, num_resamples=500, seed=6) != first
    monkeypatch.setattr("rlx.evaluate.passk.BLOCK", 40 * 7)
    assert estimate(draws, num_resamples=500, seed=5) == first


def test_a_rate_is_the_ratio_of_sums_and_zero_of_nothing() -> None:
    rate = Ratio(top=np.array([1.0, 0.0]), bottom=np.array([2.0, 6.0]))
    nothing = Ratio(top=np.zeros(2), bottom=np.zeros(2))
    found = estimates({"rate": rate, "nothing": nothing})
    assert found["rate"] == Estimate(value=1 / 8, low=0.0, high=0.5)
    assert found["nothing"] == Estimate(value=0.0, low=0.0, high=0.0)


def test_pairing_cancels_what_makes_a_problem_hard() -> None:
    hard = np.random.default_rng(1).random(60)
    gap = compare({"a": mean_of(hard + 0.1)}, {"a": mean_of(hard)})["a"]
    assert gap.value == pytest.approx(0.1)
    assert gap.high - gap.low < 1e-9


def test_paired_matches_tasks_by_id_not_by_order() -> None:
    ours, theirs = {"a": 1.0, "b": 0.0}, {"b": 0.0, "a": 0.0}
    assert paired(ours, theirs).value == 0.5
    assert paired(ours, ours) == Estimate(value=0.0, low=0.0, high=0.0)


def test_paired_refuses_other_tasks_by_name() -> None:
    with pytest.raises(ValueError, match=r"same tasks.*'c'"):
        paired({"a": 1.0, "b": 0.0}, {"a": 1.0, "b": 0.0, "c": 1.0})


@pytest.mark.parametrize("bad", [[], [0.5, float("nan")], [float("inf")]])
def test_nothing_and_what_is_not_finite_are_refused(bad: list[float]) -> None:
    with pytest.raises(ValueError, match="cannot bootstrap"):
        estimate(bad)
