"""Routes and buttons beyond the vocabulary in a whole run: engine, learner and environment mean the same by them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any, ClassVar

import pytest
import torch

from rlx.algo.twins import IMPOSSIBLE, Twins, watched_of, with_twins
from rlx.environment import Environment, Episode
from rlx.environment.world import legal_sets
from rlx.learner.batch import collate
from rlx.run.trainee import build_trainee
from rlx.types import Action, Group, Move, Step, Task, Text, Trajectory, Verb

Build = Callable[..., Any]
OTHER = ("env=", "env.", "algo=")


@dataclass(frozen=True, kw_only=True)
class House(Environment):
    """One may enter it outside, and look or leave inside; nothing is rewarded."""

    max_rounds: ClassVar = 4
    actions: ClassVar = (
        Verb(name="enter", description="go in", when=("outside",)),
        Verb(name="look", description="look", when=("inside",)),
        Verb(name="leave", description="go out", when=("inside",)),
    )

    def tasks(self, split: str, seed: int) -> Iterator[Task]:
        for i in range(50):
            yield Task(id=f"{split}{i}", prompt=(Text(f"house {i}"),), data={"inside": i % 2 == 1})

    def start(self, task: Task) -> Visit:
        return Visit(task.data["inside"])

    def demonstrate(self, task: Task, seed: int, tools: Any) -> Iterator[Move]:
        for name in ("leave", "enter") if task.data["inside"] else ("enter", "look"):
            yield Move(thought="", action=Action(kind="act", name=name, text=""))


@dataclass
class Visit(Episode):
    inside: bool

    def opening(self) -> Step:
        return self.seen()

    def seen(self) -> Step:
        legal = ("look", "leave") if self.inside else ("enter",)
        return Step(observation=(Text("inside" if self.inside else "outside"),), legal=legal)

    def step(self, action: Action) -> Step:
        self.inside = {"enter": True, "leave": False}.get(action.name, self.inside)
        return self.seen()


def begun(one: Trajectory) -> Iterator[bool]:
    """Before each turn, whether it was inside."""
    inside = one.task.data["inside"]
    for turn in one.turns:
        yield inside
        inside = {"enter": True, "leave": False}.get(turn.action.name, inside)


@pytest.fixture(scope="module")
def house(small_run: Build, tmp_path_factory: pytest.TempPathFactory) -> Any:
    words = ("env=sorting/sort2", "algo=earl", "sampling.max_new_tokens=10", "algo.num_prompts=2")
    run = small_run(tmp_path_factory.mktemp("house"), *words, without=OTHER)
    return replace(run, env=House())


def likely(agent: Any) -> None:
    """Routes that an untrained model would choose, too."""
    with torch.no_grad():
        agent.learner.model.action_rows.mul_(3)
    agent.policy.engine.load(agent.learner.weights(), 1)


def rollout_of(run: Any, agent: Any) -> Any:
    return agent.policy.rollout(run.env, run.sampling, ("test",))


def play(run: Any, agent: Any, num: int = 6) -> list[Group]:
    return rollout_of(run, agent).sample(with_twins(3, Twins()), list(islice(run.env.tasks("train", 0), num)))


def test_what_is_legal_now_is_masked_in_engine_and_learner_alike(house: Any) -> None:
    agent = build_trainee(house, house.model)
    likely(agent)
    groups = play(house, agent)
    speech = agent.policy.speech
    (state,) = speech.drawn.states.values()
    outside, inside = (1, 2)
    assert legal_sets(House.actions) == ({"enter"}, {"look", "leave"})
    actions = speech.drawn.actions
    ids = {name: actions.first + i for i, name in enumerate(actions.names)}
    assert set(ids) == {"enter", "look", "leave"}
    names, watch = [], watched_of(rollout_of(house, agent).worlds[""].speech.entries)
    for one in (one for group in groups for one in group.trajectories):
        assert one.status in ("done", "truncated"), one.error
        for turn, is_inside in zip(one.turns, begun(one), strict=True):
            done = turn.completion
            assert done.mask_ids[0] == state + (inside if is_inside else outside)
            assert not turn.action.text.endswith("is not possible now")
            names += [name for name in ids if ids[name] in done.chosen_ids]
            may = {"look", "leave"} if is_inside else {"enter"}
            assert {name for name in ids if ids[name] in done.chosen_ids} <= may
            for name, place in ((name, watch.index(chosen)) for name, chosen in ids.items()):
                spoken = [worth for worth, at in zip(done.watched, done.mask_ids) if worth and at == done.mask_ids[0]]
                assert all((worth[place] > IMPOSSIBLE) == (name in may) for worth in spoken)
    assert set(names) == set(ids), "each was chosen somewhere"
    batch = collate(groups)
    sampled = batch.engine_logp_M.isfinite()  # what twins were forced to choose was not
    learned = agent.learner.measure(batch)["logp"]
    torch.testing.assert_close(learned[sampled], batch.engine_logp_M[sampled], atol=1e-4, rtol=0)
    assert (~sampled).sum() == sum(one.fork is not None for group in groups for one in group.trajectories)
    shown = rollout_of(house, agent).demonstrate(list(islice(house.env.tasks("train", 0), 2)))
    assert [[turn.completion.mask_ids[0] - state for turn in one.turns] for one in shown] == [
        [outside, inside],
        [inside, outside],
    ]
