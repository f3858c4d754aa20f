from __future__ import annotations

from math import exp, log, sqrt

import pytest

from rlx.algo.grpo import grpo
from rlx.algo.losses import PolicyLoss
from rlx.algo.parts import Optimizer


def test_grpo_from_rewards_to_loss(rows, tokens, totals):
    loss = PolicyLoss(kl=0.5)
    algorithm = grpo(optimizer=Optimizer(), std="population", eps=0.0, clip_low=0.2, clip_high=0.28, loss=loss)
    advantages = algorithm.credit(rows((0, [1.0], True), (0, [0.0], False))).advantage.values
    assert advantages == pytest.approx([1.0, -1.0])
    seen = tokens([log(1.5), 0.0], [0.0, 0.0], advantage=advantages, reference=[log(1.5), -1.0])
    # token 0: clipped to 1.28; token 1: ratio 1, and k3 = e^-1 - 1 + 1
    assert algorithm.loss(seen, totals(seen)).value.item() == pytest.approx((-1.28 + 1.0 + 0.5 * exp(-1)) / 2)
    assert algorithm.needs == frozenset({"reference"})


def test_with_a_discount_each_turn_is_measured_by_the_same_turns_of_its_group(rows):
    table = rows((0, [0.5, 1.0], True), (0, [0.5, 0.0], False), (0, [0.0], False))
    algorithm = grpo(optimizer=Optimizer(), std="population", eps=0.0, gamma=0.5)
    first = sqrt(1 / 6)  # population std of 1, .5, 0
    assert algorithm.credit(table).advantage.values == pytest.approx([0.5 / first, 1.0, 0.0, -1.0, -0.5 / first])
