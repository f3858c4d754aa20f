from __future__ import annotations

import pytest

from rlx.algo.parts import Optimizer
from rlx.algo.tool_rloo import tool_rloo
from tests.errors import raises_naming


def test_costs_of_tools_reach_the_advantage(rows):
    # both right; one took three calls, the other one
    table = rows((0, [-0.02, -0.02, -0.02, 1.0], True), (0, [-0.02, 1.0], True))
    advantages = tool_rloo(optimizer=Optimizer()).credit(table).advantage.values
    assert advantages == pytest.approx([-0.04] * 4 + [0.04] * 2)


def test_the_best_of_k_is_credited_when_asked(rows):
    table = rows((0, [1.0], True), (0, [1.0], True), (0, [0.1], False))
    for k, expected in ((1, [0.45, 0.45, -0.9]), (2, [0.45, 0.45, 0.0]), (3, [0.0, 0.0, 0.0])):
        algorithm = tool_rloo(optimizer=Optimizer(), best_of=k)
        assert algorithm.credit(table).advantage.values == pytest.approx(expected)


def test_with_a_discount_a_good_first_try_is_not_paid_like_a_good_last_one(rows):
    table = rows((0, [0.0, 1.0], True), (0, [1.0], True), (0, [0.0, 0.0], False))
    whole, by_turn = (tool_rloo(optimizer=Optimizer(), gamma=gamma).credit(table) for gamma in (None, 0.5))
    assert whole.advantage.values == pytest.approx([0.5, 0.5, 0.5, -1.0, -1.0])
    assert by_turn.advantage.values == pytest.approx([0.0, 1.0, 0.75, -0.75, -1.0])
    best = tool_rloo(optimizer=Optimizer(), best_of=2, gamma=0.5).credit(table).advantage.values
    assert best == pytest.approx([0.25, 1.0, 0.75, 0.0, 0.0])


@pytest.mark.parametrize("best_of", [1, 2])
def test_a_task_that_is_solved_anyway_weighs_less_when_asked(rows, best_of):
    table = rows((0, [1.0], True), (0, [0.0], False), (1, [1.0], True), (1, [0.9], True))
    plain, gated = (tool_rloo(optimizer=Optimizer(), best_of=best_of, unsolved_in=k).credit(table) for k in (None, 1))
    ratios = [1 / 2, 1 / 2, 1 / 4, 1 / 4]  # of p ~ Beta(2, 2) and of p ~ Beta(3, 1)
    expected = [ratio * value for ratio, value in zip(ratios, plain.advantage.values, strict=True)]
    assert gated.advantage.values == pytest.approx(expected)


def test_clip_replaces_the_plain_gradient(tokens, totals):
    seen = tokens([0.5], [0.0])
    assert tool_rloo(optimizer=Optimizer(), clip=0.2).loss(seen, totals(seen)).value.item() == pytest.approx(-1.2)
    assert tool_rloo(optimizer=Optimizer()).loss(seen, totals(seen)).value.item() == pytest.approx(-0.5)
    capped = tool_rloo(optimizer=Optimizer(), sequence_cap=1.1).loss(seen, totals(seen)).value.item()
    assert capped == pytest.approx(-0.55)


def test_the_best_of_more_than_are_sampled_is_refused():
    with raises_naming(ValueError, "best_of=8", "num_samples=4"):
        tool_rloo(optimizer=Optimizer(), num_samples=4, best_of=8)


def test_a_scale_that_best_of_would_ignore_is_refused():
    with raises_naming(ValueError, "scale=std", "leave-one-out"):
        tool_rloo(optimizer=Optimizer(), best_of=2, scale="std")


def test_a_cap_that_clip_would_ignore_is_refused():
    with raises_naming(ValueError, "sequence_cap=2.0", "(clip=null)", "clip=0.2"):
        tool_rloo(optimizer=Optimizer(), clip=0.2, sequence_cap=2.0)
