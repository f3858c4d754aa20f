from __future__ import annotations

from math import log, sqrt

import pytest

from rlx.algo.parts import Optimizer
from rlx.algo.rebn import rebn


def test_rebn_from_rewards_to_loss(rows, tokens, totals):
    algorithm = rebn(optimizer=Optimizer(), gamma=0.5, eps=0.0)
    advantages = algorithm.credit(rows((0, [0.0, 1.0], True), (1, [0.0], False))).advantage.values
    spread = sqrt(1 / 6)  # population std of .5, 1, 0
    assert advantages == pytest.approx([0.0, 0.5 / spread, -0.5 / spread])
    seen = tokens([0.0, log(2.0), 0.0], [0.0] * 3, advantage=advantages, trajectory=[0, 0, 1], group=[0, 0, 1])
    assert algorithm.loss(seen, totals(seen)).value.item() == pytest.approx((-1.2 + 1.0) * 0.5 / spread / 3)


def test_groups_do_not_matter(rows):
    credit = rebn(optimizer=Optimizer()).credit
    assert credit(rows((0, [1.0], True), (0, [0.0], False))) == credit(rows((0, [1.0], True), (1, [0.0], False)))


def test_by_turn_only_turns_as_far_are_compared(rows):
    table = rows((0, [0.0, 1.0], True), (1, [0.0, 0.0], False), (2, [0.0, 0.0, 5.0], True))
    advantages = rebn(optimizer=Optimizer(), gamma=0.0, among="turn", eps=0.0).credit(table).advantage.values
    high, low = 2 / sqrt(2), -1 / sqrt(2)  # of 1, 0, 0
    assert advantages == pytest.approx([0.0, high, 0.0, low, 0.0, low, 0.0])


@pytest.mark.parametrize("among", ["batch", "turn"])
def test_a_batch_that_earned_the_same_everywhere_says_nothing(rows, among):
    table = rows((0, [0.1], False), (1, [0.1], False))
    assert rebn(optimizer=Optimizer(), among=among, eps=0.0).credit(table).advantage.values == [0.0, 0.0]
