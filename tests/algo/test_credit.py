from __future__ import annotations

from itertools import combinations
from math import sqrt

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rlx.algo.credit import best_of, group_centred, imitate, leave_one_out, pairs
from rlx.types import Rows

returns = st.lists(st.floats(-2, 2, allow_nan=False, width=16), min_size=2, max_size=8)


def flat(values):
    n = len(values)
    zeros = (0,) * n
    return Rows(
        group=zeros, trajectory=tuple(range(n)), turn=zeros, parent=(-1,) * n, reward=tuple(values),
        num_tokens=(1,) * n, success=(False,) * n,
    )  # fmt: skip


def test_leave_one_out_by_hand(rows):
    table = rows((0, [1.0], True), (0, [0.0], False), (0, [0.5], False), (1, [3.0], True), (1, [1.0], True))
    # 1 - (0 + .5)/2, 0 - (1 + .5)/2, .5 - (1 + 0)/2; the other group: 3 - 1, 1 - 3
    assert leave_one_out()(table).advantage.values == pytest.approx([0.75, -0.75, 0.0, 2.0, -2.0])


def test_every_turn_gets_its_episodes_return_with_costs(rows):
    table = rows((0, [-0.02, -0.02, 1.0], True), (0, [-0.02, 0.1], False))
    assert leave_one_out()(table).advantage.values == pytest.approx([0.88] * 3 + [-0.88] * 2)


@settings(deadline=None)
@given(returns)
def test_leave_one_out_is_n_over_n_minus_1_times_centred(values):
    n = len(values)
    centred = group_centred(scale="none")(flat(values)).advantage.values
    expected = [n / (n - 1) * advantage for advantage in centred]
    assert leave_one_out()(flat(values)).advantage.values == pytest.approx(expected, abs=1e-9)


def test_leave_one_out_over_a_floored_deviation(rows):
    table = rows((0, [1.0], True), (0, [0.0], False))  # population std .5
    assert leave_one_out(scale="std", eps=0.0)(table).advantage.values == pytest.approx([2.0, -2.0])
    floored = leave_one_out(scale="std", eps=0.0, deviation_floor=0.8)
    assert floored(table).advantage.values == pytest.approx([1.25, -1.25])


def test_an_episode_alone_has_nothing_to_be_compared_with(rows):
    assert leave_one_out()(rows((0, [5.0], True))).advantage.values == [0.0]
    assert group_centred()(rows((0, [5.0], True))).advantage.values == [0.0]


@pytest.mark.parametrize(("std", "divisor"), [("population", sqrt(2 / 9)), ("sample", sqrt(1 / 3))])
def test_group_centred_divisors_by_hand(rows, std, divisor):
    table = rows((0, [1.0], True), (0, [0.0], False), (0, [0.0], False))
    expected = [2 / 3 / (divisor + 0.1), -1 / 3 / (divisor + 0.1), -1 / 3 / (divisor + 0.1)]
    assert group_centred(std=std, eps=0.1)(table).advantage.values == pytest.approx(expected)


@pytest.mark.parametrize("credit", [leave_one_out(), leave_one_out(scale="std"), group_centred(), best_of(2)])
def test_groups_without_variance_are_harmless(rows, credit):
    assert credit(rows(*[(0, [0.1], False)] * 3, *[(1, [1.1], True)] * 3)).advantage.values == [0.0] * 6


def test_best_of_by_hand(rows):
    table = rows((0, [1.0], True), (0, [0.0], False), (0, [0.5], False))
    # others of 1: E[1 - b] over b in {0, .5}; of 0: never best; of .5: only against 0
    assert best_of(2)(table).advantage.values == pytest.approx([0.75, 0.0, 0.25])
    assert best_of(3)(table).advantage.values == pytest.approx([0.5, 0.0, 0.0])


@settings(deadline=None)
@given(returns, st.integers(2, 8))
def test_best_of_is_the_mean_gain_over_all_subsets(values, k):
    if k > len(values):
        return
    expected = []
    for i, value in enumerate(values):
        others = values[:i] + values[i + 1 :]
        gains = [max(0.0, value - max(subset)) for subset in combinations(others, k - 1)]
        expected.append(sum(gains) / len(gains))
    assert best_of(k)(flat(values)).advantage.values == pytest.approx(expected, abs=1e-5)


def test_best_of_one_is_another_credit():
    with pytest.raises(ValueError, match="k is 1"):
        best_of(1)


def test_best_of_more_than_are_left_is_the_best_of_those(rows):
    table = rows((0, [1.0], True), (0, [0.25], False), (1, [1.0], True))
    assert best_of(4)(table).advantage.values == [0.75, 0.0, 0.0]


def test_demonstrations_are_all_worth_copying(rows):
    assert imitate(rows((0, [0.0, 1.0], True), (1, [0.0], False))).advantage.values == [1.0, 1.0, 1.0]


def test_a_pair_is_the_first_right_and_the_first_wrong(rows):
    group = [(0, [0.0], False), (0, [0.0, 1.0], True), (0, [1.0], True), (0, [0.0], False)]
    table = rows(*group, (1, [1.0], True), (1, [1.0], True))
    assert pairs(table).advantage.values == [-1.0, 1.0, 1.0, 0.0, 0.0, 0.0, 0.0]
