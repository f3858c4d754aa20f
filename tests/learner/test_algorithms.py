"""Algorithms learn, through the learner: a turn goes or waits, all earn 1 in the end, and sooner is worth more."""

from __future__ import annotations

import copy
import math
import random
from functools import partial

import pytest
import torch

from rlx.algo.a2c import a2c
from rlx.algo.grpo import grpo
from rlx.algo.nested_ppo import nested_ppo
from rlx.algo.parts import Critic, Optimizer
from rlx.algo.ppo import ppo
from rlx.algo.rebn import rebn
from rlx.algo.reinforce import reinforce
from rlx.algo.rloo import rloo
from rlx.algo.tool_rloo import tool_rloo
from rlx.learner.batch import collate
from rlx.learner.rows import rows
from rlx.learner.torch import TorchLearner
from rlx.protocol.automaton import Automaton, State
from rlx.types import Action, Completion, Group, Task, Trajectory, Turn

GO, WAIT, LAST = 1, 2, 3
CHOICE = Automaton(states=(State(allowed=frozenset({WAIT, GO})),))
CRITIC = Critic(lr=1e-2)
TURN_BY_TURN = {
    "reinforce": partial(reinforce, gamma=0.3),
    "rebn": rebn,
    "rebn, by turn": partial(rebn, among="turn"),
    "a2c": partial(a2c, critic=CRITIC),
    "ppo": partial(ppo, critic=CRITIC),
    "nested_ppo": partial(nested_ppo, critic=CRITIC),
    "turn_ppo": partial(nested_ppo, critic=CRITIC, worth="turn"),
    "bilevel_ppo": partial(nested_ppo, critic=CRITIC, worth="bilevel"),
    "grpo": partial(grpo, gamma=0.9),
    "rloo": partial(rloo, gamma=0.9),
    "tool_rloo": partial(tool_rloo, gamma=0.9, best_of=2, clip=0.2),
}


@torch.no_grad()
def chances_to_go(network):
    """Of every turn, how likely the policy goes."""
    copied = copy.deepcopy(network)
    copied.set_attn_implementation("eager")
    logits = copied(torch.tensor([[10 + turn] for turn in range(LAST + 1)])).logits[:, -1, [WAIT, GO]]
    return logits.double().softmax(-1)[:, 1].tolist()


def wait_or_go(chances, draw, task, sample):
    """An episode: one token a turn, which sees how many turns there have been; the last ends it whatever it says."""
    turns = []
    for turn, chance in enumerate(chances):
        goes = draw.random() < chance
        logp = math.log(chance if goes else 1 - chance)
        said = Completion(token_ids=(GO if goes else WAIT,), logprobs=(logp,), mask_ids=(0,), stop="stop")
        ends = goes or turn == LAST
        act = Action(kind="answer", text="")
        turns.append(Turn(prompt_ids=(10 + turn,), completion=said, action=act, reward=float(ends)))
        if ends:
            break
    return Trajectory(task=task, sample=sample, turns=tuple(turns), status="done", success=True)


def trained(algorithm, network, num_steps):
    """How likely each turn goes after so many steps of the loop."""
    draw = random.Random(0)
    trainer = TorchLearner(
        network, optimizer=algorithm.optimizer, num_steps=num_steps, critic=algorithm.critic, automaton=CHOICE,
        micro_batch_tokens=4096,
    )  # fmt: skip
    for _ in range(num_steps):
        chances = chances_to_go(trainer.model)
        tasks = [Task(id=str(i), prompt=(), data={}) for i in range(8)]
        groups = [
            Group(task=task, trajectories=tuple(wait_or_go(chances, draw, task, i) for i in range(8))) for task in tasks
        ]
        batch = trainer.annotate(collate(groups), algorithm.needs)
        trainer.update(batch.with_credit(algorithm.credit(rows(groups, batch))), algorithm.loss)
    return chances_to_go(trainer.model)


@pytest.mark.parametrize("make", TURN_BY_TURN.values(), ids=TURN_BY_TURN)
def test_with_a_discount_what_earns_the_same_is_earned_sooner(model, make):
    start = chances_to_go(model())[0]
    found = trained(make(optimizer=Optimizer(lr=3e-3, num_epochs=2)), model(), 20)[0]
    assert start < 0.3
    assert found > 0.9


@pytest.mark.parametrize("make", [partial(rebn, gamma=1.0), partial(grpo, gamma=1.0), grpo, tool_rloo])
def test_without_one_nothing_is_learned_from_what_earns_the_same(model, make):
    assert trained(make(optimizer=Optimizer(lr=3e-3)), model(), 3) == chances_to_go(model())
