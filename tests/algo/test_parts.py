from __future__ import annotations

import math
import subprocess
import sys
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from rlx.algo.a2c import a2c
from rlx.algo.credit import leave_one_out
from rlx.algo.entry import Entry
from rlx.algo.grpo import grpo
from rlx.algo.ipo import ipo
from rlx.algo.losses import PolicyLoss
from rlx.algo.parts import Algorithm, Critic, Optimizer, SamplerContext
from rlx.algo.ppo import ppo
from rlx.algo.rebn import rebn
from rlx.algo.reinforce import reinforce
from rlx.algo.rloo import rloo
from rlx.algo.rows import Rows
from rlx.algo.samplers import demonstrations, independent
from rlx.algo.sft import sft
from rlx.algo.tool_rloo import tool_rloo
from rlx.rollout.growth import number_starts, sample_flat
from rlx.settings.compose import build_value, compose
from rlx.types import Task, Trajectory
from tests.errors import raises_naming
from tests.loops import for_each

CRITIC = Critic(lr=1e-3)
CONF = Path(__file__).parents[2] / "conf" / "algo"
TASKS = [Task(id=name, prompt=(), data={}) for name in "ab"]


COMPARE = Entry(name="compare", chosen=(1,), words=(2,))


class Echo:
    """Plays nothing; answers with an episode for every start."""

    def play(self, starts):
        return [Trajectory(task=s.task, sample=s.sample, turns=(), status="done") for s in starts]

    def demonstrate(self, tasks):
        return [Trajectory(task=task, sample=0, turns=(), status="done", success=True) for task in tasks]

    def sample(self, sampler, tasks):
        if sampler.grow is None:
            return sample_flat(self, sampler, tasks)
        return [self.drive(sampler, SamplerContext(task=task, entries=(COMPARE,))) for task in tasks]

    def drive(self, sampler, context):
        """Begin no more episodes than the sampler declares."""
        growth = number_starts(sampler.grow(context), context.task, 0, sampler)
        try:
            asked = next(growth)
            while True:
                asked = growth.send(self.play(asked.starts))
        except StopIteration as end:
            return end.value


def test_independent_samples_come_back_by_task_in_order():
    groups = Echo().sample(independent(3), TASKS)
    assert [g.task.id for g in groups] == ["a", "b"]
    assert [[(t.task.id, t.sample) for t in g.trajectories] for g in groups] == [
        [("a", 0), ("a", 1), ("a", 2)],
        [("b", 0), ("b", 1), ("b", 2)],
    ]


def test_demonstrations_are_groups_of_one():
    assert [[t.success for t in g.trajectories] for g in Echo().sample(demonstrations(), TASKS)] == [[True], [True]]


NAMED_OTHERWISE = {"cpo": {"earl", "earl_released"}, "nested_ppo": {"bandit_ppo", "turn_ppo", "bilevel_ppo"}}
"""Options whose names are not those of their algorithms: EARL is CPO and a protocol."""


@for_each("path", sorted(CONF.glob("*.yaml")))
def test_every_shipped_file_makes_an_algorithm(path):
    call = compose([f"algo={path.stem}"])["algo"]
    name = call["_target_"].rsplit(".", 1)[-1]
    assert call["_target_"] == f"rlx.algo.{name}.{name}"
    assert name in path.stem or path.stem in NAMED_OTHERWISE[name]
    assert path.read_text().startswith("# ")
    algorithm = build_value(call, "algo")
    assert isinstance(algorithm, Algorithm)
    assert len(Echo().sample(algorithm.sample, TASKS)) == 2


def test_reading_algorithms_does_not_load_torch():
    names = ", ".join(f"rlx.algo.{path.stem}" for path in (CONF.parents[1] / "rlx" / "algo").glob("[!_]*.py"))
    code = f"import sys, {names}; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], cwd=CONF.parents[1]).returncode == 0


@for_each(
    "bad",
    [
        {"lr": -1.0},
        {"lr": math.nan},
        {"lr": 1e30},
        {"betas": (2, 2)},
        {"betas": (0.9,)},
        {"weight_decay": -0.1},
        {"warmup_steps": -1},
        {"hold_steps": -1},
        {"hold_steps": 5, "schedule": "constant"},
        {"max_gradient_norm": 0.0},
        {"max_gradient_norm": math.nan},
        {"max_gradient_norm": 10**400},
        {"num_epochs": 0},
        {"num_minibatches": 0},
    ],
)
def test_an_optimizer_that_cannot_be_is_refused_by_its_key(bad: dict[str, Any]) -> None:
    with raises_naming(ValueError, f"{next(iter(bad))}="):
        Optimizer(**bad)


@for_each(
    "make, bad",
    [
        (grpo, {"num_prompts": 0}),
        (rloo, {"num_samples": 1}),
        (grpo, {"clip_low": 1.5}),
        (grpo, {"clip_high": 0.0}),
        (grpo, {"eps": -1e-6}),
        (rloo, {"sequence_cap": 0.0}),
        (tool_rloo, {"clip": -0.2}),
        (tool_rloo, {"best_of": 0}),
        (tool_rloo, {"best_of": 99}),
        (tool_rloo, {"deviation_floor": math.nan}),
        (tool_rloo, {"unsolved_in": 0}),
        (tool_rloo, {"gamma": 1.5}),
        (rloo, {"gamma": -0.1}),
        (grpo, {"gamma": math.nan}),
        (ipo, {"beta": 0.0}),
        (sft, {"num_prompts": -1}),
        (reinforce, {"gamma": 1.01}),
        (reinforce, {"clip": 0.0}),
        (rebn, {"gamma": math.nan}),
        (rebn, {"eps": -1.0}),
        (partial(ppo, critic=CRITIC), {"lam": 2.0}),
        (partial(ppo, critic=CRITIC), {"clip": 0.0}),
        (partial(a2c, critic=CRITIC), {"gamma": -1.0}),
    ],
)
def test_an_algorithm_that_cannot_be_is_refused_by_its_key(make: Any, bad: dict[str, Any]) -> None:
    with raises_naming(ValueError, f"{next(iter(bad))}="):
        make(optimizer=Optimizer(), **bad)


@for_each(
    "bad",
    [
        {"sample": 4},
        {"credit": {"a": 1}},
        {"loss": 1.0},
        {"optimizer": None},
        {"critic": 1e-4},
        {"memory": {}},
        {"needs": "reference"},
        {"needs": frozenset({"value"})},
    ],
)
def test_an_algorithm_of_other_types_is_refused_by_its_field(bad: dict[str, Any]) -> None:
    with raises_naming(ValueError, f"{next(iter(bad))}="):
        replace(grpo(optimizer=Optimizer()), **bad)


@pytest.mark.parametrize("bad", [{"kl": -1.0}, {"entropy": math.inf}, {"constant": 0.0}])
def test_a_loss_that_cannot_be_is_refused_by_its_key(bad: dict[str, Any]) -> None:
    with raises_naming(ValueError, f"{next(iter(bad))}="):
        PolicyLoss(**bad)


def test_equal_returns_are_no_signal_whatever_they_are_divided_by() -> None:
    same = Rows(
        group=(0, 0),
        trajectory=(0, 1),
        turn=(0, 0),
        parent=(-1, -1),
        reward=(0.3, 0.3),
        num_tokens=(1, 1),
        success=(True, True),
    )
    assert grpo(optimizer=Optimizer(), eps=0.0).credit(same).advantage.values == [0.0, 0.0]
    assert leave_one_out(scale="std", eps=0.0)(same).advantage.values == [0.0, 0.0]
