from __future__ import annotations

from math import log

import pytest

from rlx.algo.losses import PolicyLoss
from rlx.algo.parts import Optimizer
from rlx.algo.reinforce import reinforce


def test_reinforce_from_rewards_to_loss(rows, tokens, totals):
    algorithm = reinforce(optimizer=Optimizer(), gamma=0.5)
    advantages = algorithm.credit(rows((0, [0.0, 1.0], True), (0, [-0.5], False))).advantage.values
    assert advantages == [0.5, 1.0, -0.5], "each turn's own, and nothing is taken from it"
    seen = tokens([log(2.0), 0.0, log(0.5)], [0.0] * 3, advantage=advantages, trajectory=[0, 0, 1])
    # ratios 2, clipped to 1.2; 1; and .5, which may not gain from falling below .8
    result = algorithm.loss(seen, totals(seen))
    assert result.value.item() == pytest.approx((-0.6 - 1.0 + 0.4) / 3)
    result.value.backward()
    assert seen.now["logp"].grad.tolist() == pytest.approx([0.0, -1 / 3, 0.0])


def test_without_a_clip_it_is_the_plain_gradient(tokens, totals):
    seen = tokens([log(2.0), log(0.5)], [0.0, 0.0], advantage=[0.5, -0.5])
    result = reinforce(optimizer=Optimizer(), clip=None).loss(seen, totals(seen))
    result.value.backward()
    assert seen.now["logp"].grad.tolist() == pytest.approx([-0.25, 0.25])


def test_a_pull_to_the_start_is_a_choice():
    assert reinforce(optimizer=Optimizer()).needs == frozenset()
    pulled = reinforce(optimizer=Optimizer(), loss=PolicyLoss(kl=0.1, kl_target=0.01))
    assert pulled.needs == frozenset({"reference"})
    assert pulled.memory is not None
