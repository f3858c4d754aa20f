from __future__ import annotations

from itertools import combinations
from math import isnan, sqrt

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rlx.algo.credit import best_of, gae, gae_over_tokens, gae_over_turns, group_centred, imitate, leave_one_out, pairs
from rlx.algo.parts import PerRow, PerToken
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


def chain(reward, value, status="done", after=0.0):
    """One episode, a row a turn."""
    n = len(reward)
    return Rows(
        group=(0,) * n, trajectory=(0,) * n, turn=tuple(range(n)), parent=tuple(range(-1, n - 1)), reward=reward,
        num_tokens=tuple(map(len, value)), success=(False,) * n, status=(status,) * n, value=value,
        value_after=(0.0,) * (n - 1) + (after,),
    )  # fmt: skip


def test_gae_by_hand():
    # d = (1 + .5 * 4 - 2, 0 + .5 * 6 - 4, 2 + .5 * 8 - 6) = (1, -1, 0); A_2 = 0, A_1 = -1, A_0 = 1 + .25 * -1
    assert gae([1.0, 0.0, 2.0], [2.0, 4.0, 6.0], 8.0, 0.5, 0.5) == pytest.approx([0.75, -1.0, 0.0])


@given(st.lists(st.tuples(st.floats(-1, 1), st.floats(-1, 1)), min_size=1, max_size=6))
def test_gae_with_lambda_one_is_return_less_value_and_with_zero_one_step(pairs_of):
    rewards, values = map(list, zip(*pairs_of, strict=True))
    returns = [sum(0.9**k * r for k, r in enumerate(rewards[t:])) for t in range(len(rewards))]
    expected = [g - v for g, v in zip(returns, values, strict=True)]
    assert gae(rewards, values, 0.0, 0.9, 1.0) == pytest.approx(expected)
    one_step = [r + 0.9 * v - own for r, v, own in zip(rewards, [*values[1:], 0.0], values, strict=True)]
    assert gae(rewards, values, 0.0, 0.9, 0.0) == pytest.approx(one_step)


def test_gae_over_turns_reads_the_value_before_each_turn():
    table = chain((1.0, 2.0), ((2.0, 9.0), (4.0,)))
    found = gae_over_turns(gamma=0.5, lam=0.5)(table)
    # d_1 = 2 - 4 = -2; d_0 = 1 + .5 * 4 - 2 = 1, A_0 = 1 + .25 * -2
    assert found.advantage == PerRow([0.5, -2.0])
    assert found.returns == PerRow([2.5, 2.0])
    assert found.returns_after == PerRow([2.0, 0.0]), "the next turn's, and nothing after the end"


@pytest.mark.parametrize(("make", "flat"), [(gae_over_turns, list), (gae_over_tokens, lambda own: [x for (x,) in own])])
def test_what_the_contexts_end_cut_off_is_worth_its_last_value_and_what_a_limit_of_turns_ended_nothing(make, flat):
    credit = make(gamma=0.5, lam=0.5)
    cut, ended, done = (
        credit(chain((1.0, 2.0), ((2.0,), (4.0,)), how, after=6.0)) for how in ("context", "truncated", "done")
    )
    # d_1 = 2 + .5 * 6 - 4 = 1; d_0 = 1 + .5 * 4 - 2 = 1, A_0 = 1 + .25 * 1; G = A + V
    assert flat(cut.advantage.values) == [1.25, 1.0]
    assert flat(cut.returns.values) == [3.25, 5.0]
    assert cut.returns_after.values[0] == 5.0
    assert isnan(cut.returns_after.values[1]), "nobody knows"
    assert ended == done
    assert flat(ended.advantage.values) == [0.5, -2.0]
    assert ended.returns_after == PerRow([2.0, 0.0])
    plain = make(gamma=0.5, lam=0.5, bootstrap=False)(chain((1.0, 2.0), ((2.0,), (4.0,)), "context", after=6.0))
    assert plain.advantage == ended.advantage


def test_gae_over_tokens_goes_on_from_a_turn_to_the_next():
    table = chain((1.0, 2.0), ((2.0, 4.0), (6.0,)))
    found = gae_over_tokens(gamma=0.5, lam=0.5)(table)
    # d = (.5 * 4 - 2, 1 + .5 * 6 - 4, 2 - 6) = (0, 0, -4)
    assert found.advantage == PerToken([[-0.25, -1.0], [-4.0]])
    assert found.returns == PerToken([[1.75, 3.0], [2.0]])
    assert found.returns_after == PerRow([2.0, 0.0])
    one_each = chain((1.0, 2.0), ((2.0,), (4.0,)))
    by_token, by_turn = (make(gamma=0.5, lam=0.5)(one_each) for make in (gae_over_tokens, gae_over_turns))
    assert [own[0] for own in by_token.advantage.values] == by_turn.advantage.values
