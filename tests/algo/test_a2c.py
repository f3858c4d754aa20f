from __future__ import annotations

from dataclasses import replace
from math import log

import pytest
import torch

from rlx.algo.a2c import a2c
from rlx.algo.parts import Critic, Optimizer, PerRow
from rlx.algo.ppo import ppo

CRITIC = Critic(lr=1e-3)


def test_a2c_from_rewards_to_loss(rows, tokens, totals):
    algorithm = a2c(optimizer=Optimizer(), critic=CRITIC, gamma=0.5, lam=0.5)
    table = replace(rows((0, [1.0, 2.0], True)), status=("done",) * 2, value=((2.0,), (4.0,)), value_after=(0.0, 0.0))
    credited = algorithm.credit(table)
    assert (credited.advantage, credited.returns) == (PerRow([0.5, -2.0]), PerRow([2.5, 2.0]))
    assert credited == ppo(optimizer=Optimizer(), critic=CRITIC, gamma=0.5, lam=0.5).credit(table)
    values = torch.tensor([2.0, 4.0])
    seen = tokens(
        [log(0.5), 0.0], [0.0, 0.0], advantage=credited.advantage.values, returns=torch.tensor([2.5, 2.0]),
        now={"value": values}, before={"value": values},
    )  # fmt: skip
    result = algorithm.loss(seen, totals(seen))
    assert result.value.item() == pytest.approx(-0.5 * log(0.5) / 2 + 0.5 * (0.5**2 + 2.0**2) / 2)
    result.value.backward()
    assert seen.now["logp"].grad.tolist() == pytest.approx([-0.25, 1.0]), "no ratio, and none is clipped"
    assert algorithm.critic is CRITIC
