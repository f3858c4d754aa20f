from __future__ import annotations

import pytest

from rlx.algo.losses import PolicyLoss
from rlx.algo.parts import Optimizer
from rlx.algo.rloo import rloo


def test_rloo_from_rewards_to_gradient(rows, tokens, totals):
    algorithm = rloo(optimizer=Optimizer())
    advantages = algorithm.credit(rows((0, [1.0], True), (0, [0.0], False), (0, [0.0], False))).advantage.values
    assert advantages == pytest.approx([1.0, -0.5, -0.5])
    seen = tokens([-1.0, -2.0, -4.0], advantage=advantages, trajectory=[0, 1, 2])
    result = algorithm.loss(seen, totals(seen))
    assert result.value.item() == pytest.approx((1.0 - 1.0 - 2.0) / 3)
    result.value.backward()
    assert seen.now["logp"].grad.tolist() == pytest.approx([-1 / 3, 0.5 / 3, 0.5 / 3])


def test_a_reference_is_needed_only_for_the_kl():
    assert rloo(optimizer=Optimizer()).needs == frozenset()
    assert rloo(optimizer=Optimizer(), loss=PolicyLoss(kl=0.1)).needs == frozenset({"reference"})


def test_with_a_discount_turns_are_compared_with_the_same_turns(rows):
    table = rows((0, [0.0, 1.0], True), (0, [0.0, 0.0], False))
    assert rloo(optimizer=Optimizer(), gamma=0.5).credit(table).advantage.values == [0.5, 1.0, -0.5, -1.0]
