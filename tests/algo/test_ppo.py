from __future__ import annotations

from dataclasses import replace
from math import exp, log, nan

import pytest
import torch

from rlx.algo.gae import gae_over_turns
from rlx.algo.losses import PolicyLoss
from rlx.algo.parts import Critic, Optimizer, PerRow
from rlx.algo.ppo import ppo

CRITIC = Critic(lr=1e-3)


def test_ppo_from_rewards_to_loss(rows, tokens, totals):
    algorithm = ppo(optimizer=Optimizer(), critic=CRITIC, gamma=0.5, lam=0.5, value_weight=0.1)
    table = replace(rows((0, [1.0, 2.0], True)), status=("done",) * 2, value=((2.0,), (4.0,)), value_after=(0.0, 0.0))
    credited = algorithm.credit(table)
    # d_1 = 2 - 4; d_0 = 1 + .5 * 4 - 2 = 1, A_0 = 1 + .25 * -2
    assert (credited.advantage, credited.returns) == (PerRow([0.5, -2.0]), PerRow([2.5, 2.0]))
    now = torch.tensor([2.25, 4.0], requires_grad=True)
    seen = tokens(
        [log(1.5), 0.0], [0.0, 0.0], advantage=credited.advantage.values, returns=torch.tensor([2.5, 2.0]),
        now={"value": now}, before={"value": torch.tensor([2.0, 4.0])},
    )  # fmt: skip
    result = algorithm.loss(seen, totals(seen))
    assert result.value.item() == pytest.approx((-1.2 * 0.5 + 2.0) / 2 + 0.1 * (0.25**2 + 2.0**2) / 2)
    assert {"critic/loss", "ratio/clipped"} <= set(result.metrics)
    result.value.backward()
    assert now.grad.tolist() == pytest.approx([0.1 * -0.25, 0.1 * 2.0])
    held = ppo(optimizer=Optimizer(), critic=CRITIC, value_weight=0.1, value_clip=0.1).loss(seen, totals(seen))
    assert held.value.item() == pytest.approx((-1.2 * 0.5 + 2.0) / 2 + 0.1 * (0.4**2 + 2.0**2) / 2)


def test_its_critic_and_a_pull_that_follows_the_kl_are_part_of_it():
    plain = ppo(optimizer=Optimizer(), critic=CRITIC)
    assert (plain.critic, plain.memory, plain.needs) == (CRITIC, None, frozenset())
    pulled = ppo(optimizer=Optimizer(), critic=CRITIC, loss=PolicyLoss(kl=0.1, kl_target=0.01))
    assert pulled.needs == frozenset({"reference"})
    assert pulled.memory.begin() == {"kl": 0.1}


def test_the_loss_of_a_later_step_still_has_its_critics(tokens, totals):
    loss = PolicyLoss(kl=0.1, kl_target=0.01)
    algorithm = ppo(optimizer=Optimizer(), critic=CRITIC, loss=loss)
    later = algorithm.memory.bind(algorithm, {"kl": 0.5})
    values = torch.tensor([3.0])
    seen = tokens(
        [0.0], [0.0], reference=[1.0], returns=torch.tensor([1.0]), now={"value": values}, before={"value": values}
    )
    assert later.loss(seen, totals(seen)).value.item() == pytest.approx(-1.0 + 0.5 * 4.0 + 0.5 * (exp(1.0) - 2))


@pytest.mark.parametrize(
    ("status", "after", "expected"), [("context", 4.0, 4.0), ("context", nan, 0.0), ("done", 4.0, 0.0)]
)
def test_an_episode_is_worth_what_the_critic_expects_after_a_context_that_ended(rows, status, after, expected):
    table = replace(rows((0, [1.0], True)), status=(status,), value=((2.0,),), value_after=(after,))
    advantage = gae_over_turns()(table).advantage
    assert advantage == PerRow([1.0 + expected - 2.0])
