from __future__ import annotations

from dataclasses import replace
from itertools import combinations
from math import isnan, sqrt

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlx.algo.credit import (
    batch_normalised,
    best_of,
    chance_unsolved,
    discounted,
    dropping_equal,
    group_centred,
    imitate,
    leave_one_out,
    pairs,
    returns_to_go,
    where_unsolved,
)
from rlx.algo.gae import gae, gae_over_tokens, gae_over_turns
from rlx.algo.parts import PerRow, PerToken
from rlx.algo.rows import Rows
from tests.errors import raises_naming

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


def test_groups_whose_episodes_earned_the_same_can_be_left_out(rows):
    table = rows((0, [1.0], True), (0, [1.0], True), (1, [1.0], True), (1, [0.0], False))
    found = dropping_equal(group_centred())(table)
    assert found.keep == PerRow([False, False, True, True])
    assert found.advantage == group_centred()(table).advantage
    assert dropping_equal(group_centred(), drop=False)(table).keep is None


def test_best_of_by_hand(rows):
    table = rows((0, [1.0], True), (0, [0.0], False), (0, [0.5], False))
    # others of 1: E[1 - b] over b in {0, .5}; of 0: never best; of .5: only against 0
    assert best_of(2)(table).advantage.values == pytest.approx([0.75, 0.0, 0.25])
    assert best_of(3)(table).advantage.values == pytest.approx([0.5, 0.0, 0.0])


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
    with raises_naming(ValueError, 1):
        best_of(1)


def test_best_of_more_than_are_left_is_the_best_of_those(rows):
    table = rows((0, [1.0], True), (0, [0.25], False), (1, [1.0], True))
    assert best_of(4)(table).advantage.values == [0.75, 0.0, 0.0]


def played(episodes):
    """Rows of episodes, each (group, rewards of its turns)."""
    table = [(g, t, at, r) for t, (g, rewards) in enumerate(episodes) for at, r in enumerate(rewards)]
    group, trajectory, turn, reward = map(tuple, zip(*table, strict=True))
    return Rows(
        group=group, trajectory=trajectory, turn=turn, parent=(-1,) * len(turn), reward=reward,
        num_tokens=(1,) * len(turn), success=(False,) * len(turn),
    )  # fmt: skip


EPISODES = st.lists(
    st.tuples(st.integers(0, 2), st.lists(st.floats(-2, 2, width=16), min_size=1, max_size=4)), min_size=1, max_size=6
)
BY_TURN = {
    "discounted": discounted(0.9),
    "batch": batch_normalised(gamma=0.9),
    "turn": batch_normalised(gamma=0.9, among="turn"),
    "leave_one_out": leave_one_out(gamma=0.9),
    "group_centred": group_centred(gamma=0.9, eps=0.1),
    "best_of": best_of(2, gamma=0.9),
}


def test_returns_to_go_by_hand(rows):
    table = rows((0, [1.0, 0.0, 4.0], True), (0, [2.0], True), (1, [0.0, 1.0], True))
    assert discounted(0.5)(table).advantage.values == [1 + 0.5 * 2, 2.0, 4.0, 2.0, 0.5, 1.0]
    assert discounted(0.0)(table).advantage.values == list(table.reward)


@given(EPISODES)
def test_returns_to_go_telescope(episodes):
    table = played(episodes)
    for gamma in (1.0, 0.5):
        found = returns_to_go(table, gamma)
        for i, reward in enumerate(table.reward):
            goes_on = table.trajectory[i : i + 1] == table.trajectory[i + 1 : i + 2]
            assert found[i] == pytest.approx(reward + gamma * found[i + 1] if goes_on else reward)
    first = [value for value, turn in zip(returns_to_go(table, 1.0), table.turn, strict=True) if turn == 0]
    assert first == pytest.approx([sum(rewards) for _, rewards in episodes])


@pytest.mark.parametrize("credit", BY_TURN.values(), ids=BY_TURN)
@given(episodes=EPISODES, order=st.randoms(use_true_random=False))
def test_in_another_order_episodes_have_the_same_advantages(credit, episodes, order):
    shuffled = order.sample(range(len(episodes)), len(episodes))
    plain, moved = (played(given) for given in (episodes, [episodes[i] for i in shuffled]))
    expected = dict(zip(zip(plain.trajectory, plain.turn, strict=True), credit(plain).advantage.values, strict=True))
    found = zip(moved.trajectory, moved.turn, credit(moved).advantage.values, strict=True)
    assert [value for *_, value in found] == pytest.approx(
        [expected[shuffled[t], turn] for t, turn in zip(moved.trajectory, moved.turn, strict=True)], abs=1e-6
    )


@given(EPISODES)
def test_batch_normalised_advantages_have_mean_0_and_deviation_1(episodes):
    table = played(episodes)
    values = batch_normalised(gamma=0.9, eps=0.0)(table).advantage.values
    n, spread = len(values), max(returns_to_go(table, 0.9)) - min(returns_to_go(table, 0.9))
    assert sum(values) / n == pytest.approx(0.0, abs=1e-6)
    assert sum(value**2 for value in values) / n == pytest.approx(1.0 if spread else 0.0)


def test_batch_normalised_by_hand_over_all_turns_and_over_those_of_one_number(rows):
    table = rows((0, [0.0, 2.0], True), (1, [3.0], True))  # G = 1, 2 | 3 with gamma .5
    over = sqrt(2 / 3) + 0.1
    assert batch_normalised(gamma=0.5, eps=0.1)(table).advantage.values == pytest.approx([-1 / over, 0.0, 1 / over])
    by_number = batch_normalised(gamma=0.5, among="turn", eps=0.25)(table).advantage.values
    assert by_number == pytest.approx([-1 / 1.25, 0.0, 1 / 1.25]), "first turns 1 and 3; alone at the second"


def test_with_a_discount_a_turn_is_compared_with_the_same_turn_of_its_group(rows):
    # G with gamma .5: 1, 2 | 0, 0 | 4; another group's are its own
    table = rows((0, [0.0, 2.0], True), (0, [0.0, 0.0], False), (0, [4.0], True), (1, [7.0], True), (1, [5.0], True))
    first = [1 - 4 / 2, 0 - 5 / 2, 4 - 1 / 2]
    expected = [first[0], 2.0, first[1], -2.0, first[2], 2.0, -2.0]
    assert leave_one_out(gamma=0.5)(table).advantage.values == pytest.approx(expected)
    centred = [value * (2 / 3 if at in (0, 2, 4) else 1 / 2) for at, value in enumerate(expected)]
    assert group_centred(scale="none", gamma=0.5)(table).advantage.values == pytest.approx(centred)
    assert best_of(2, gamma=0.5)(table).advantage.values == pytest.approx([0.5, 2.0, 0.0, 0.0, 3.5, 2.0, 0.0])


@pytest.mark.parametrize("credit", [leave_one_out(gamma=1.0), group_centred(gamma=1.0, eps=0.0), best_of(2, gamma=1.0)])
def test_a_turn_that_no_other_of_the_group_got_to_is_worth_nothing(rows, credit):
    table = rows((0, [0.0, 1.0], True), (0, [1.0], True))
    assert credit(table).advantage.values == [0.0, 0.0, 0.0]


@pytest.mark.parametrize("make", [leave_one_out, group_centred, lambda gamma: best_of(2, gamma)])
@given(st.lists(st.floats(-2, 2, width=16), min_size=2, max_size=6))
def test_in_episodes_of_one_turn_a_discount_changes_nothing(make, values):
    assert make(gamma=0.3)(flat(values)) == make(gamma=None)(flat(values))


def test_a_forks_turns_go_by_what_they_earned_themselves(rows):
    # one that earned 1, then 2; a fork of its second turn that earned 5 there: its first turn is its parent's row
    table = rows((0, [1.0, 2.0], True), (0, [5.0], True))
    forked = replace(table, turn=(0, 1, 1), parent=(-1, 0, 0), fork=(-1, -1, 1), replayed=(0.0, 0.0, 1.0))
    assert returns_to_go(forked, 0.5) == [2.0, 2.0, 5.0]
    assert leave_one_out(gamma=0.5)(forked).advantage.values == [0.0, -3.0, 3.0]


def test_the_chance_that_a_task_stays_unsolved():
    assert chance_unsolved(0, 0, 1) == 0.5
    assert chance_unsolved(1, 2, 1) == 0.5
    assert chance_unsolved(2, 2, 3) == pytest.approx(1 / 4 * 2 / 5 * 3 / 6)  # p ~ Beta(3, 1)
    assert chance_unsolved(0, 4, 10**3) == pytest.approx(5 / (5 + 10**3))
    few, some, many = (chance_unsolved(solved, 16, 15) for solved in (1, 3, 6))
    assert (some / few, many / few) == pytest.approx((0.24, 0.02), abs=5e-3)


@given(st.integers(0, 8), st.integers(0, 8), st.integers(1, 16))
def test_the_chance_is_the_mean_over_what_the_task_may_be(solved, failed, num_tries):
    num = 2000
    points = [(i + 0.5) / num for i in range(num)]
    likely = [p**solved * (1 - p) ** failed for p in points]
    mean = sum((1 - p) ** num_tries * weight for p, weight in zip(points, likely, strict=True)) / sum(likely)
    assert chance_unsolved(solved, solved + failed, num_tries) == pytest.approx(mean, rel=1e-3)


def test_the_likelier_a_task_is_solved_the_less_it_moves(rows):
    table = rows((0, [0.0, 1.0], True), (0, [0.0], False), (1, [1.0], True), (1, [0.5], True))
    plain, gated = (credit(table).advantage.values for credit in (leave_one_out(), where_unsolved(leave_one_out(), 2)))
    chances = [chance_unsolved(1, 2, 2)] * 3 + [chance_unsolved(2, 2, 2)] * 2
    assert gated == pytest.approx([chance * value for chance, value in zip(chances, plain, strict=True)])


def test_what_is_credited_token_by_token_is_weighed_too():
    table = chain((1.0, 2.0), ((2.0, 4.0), (6.0,)))
    plain, gated = (
        credit(table).advantage.values for credit in (gae_over_tokens(), where_unsolved(gae_over_tokens(), 1))
    )
    assert gated == [[2 / 3 * value for value in own] for own in plain]


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


def test_the_best_of_hundreds_of_a_thousand_is_a_number(rows):
    one_better = best_of(550)(rows(*[(0, [1.0 + (i == 0)], True) for i in range(1100)])).advantage.values
    assert one_better[0] == pytest.approx(1.0)
    assert set(one_better[1:]) == {0.0}
    few_better = best_of(550)(rows(*[(0, [float(i < 2)], True) for i in range(1100)])).advantage.values
    assert few_better[0] == pytest.approx(550 / 1099), "the chance that the other is none of 549 of 1099"
