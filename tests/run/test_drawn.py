"""A protocol that says what may be chosen, by itself: a run's model, engine, learner and environment know it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
import torch

from rlx.algo.credit import per_row
from rlx.algo.losses import policy_gradient, policy_loss
from rlx.algo.samplers import independent
from rlx.base.console import Screen
from rlx.env.mixed.mixture import Mixture, Portion
from rlx.environment import Environment, Episode
from rlx.learner.batch import collate
from rlx.model.load import Model, load_model
from rlx.plan.prospect import Prospect
from rlx.protocol.automaton import Actions, Automaton, State
from rlx.protocol.drawn import ChoiceText, Choosing, Encode, added_by, split_choices
from rlx.protocol.tags import Tags
from rlx.run.trainee import build_policy, build_trainee
from rlx.runs.folder import CHECKPOINTS
from rlx.training import train
from rlx.types import Action, Completion, Group, Step, Stop, Task, Text
from tests.errors import raises_naming

KEYS = {"one": "1", "two": " two", "enter": "="}
Build = Callable[..., Any]


@dataclass(frozen=True, kw_only=True)
class Keys(Tags, Choosing):
    """A turn presses keys, of which `enter` ends it; each is an action beyond the vocabulary."""

    keys: tuple[str, ...] = tuple(KEYS)
    text: bool = True
    """A turn begins in text, and the first key leaves it."""

    @property
    def added(self) -> Mapping[str, str]:
        return {key: KEYS[key] for key in self.keys}

    def draw(self, actions: Actions | None, encode: Encode) -> Automaton:
        assert actions is not None
        ids = {name: actions.first + i for i, name in enumerate(actions.names)}
        enter, own = ids["enter"], frozenset(ids[key] for key in self.keys)
        pressing = State(allowed=own, ends=frozenset({enter}))
        if not self.text:
            return Automaton(states=(pressing,), actions=actions)
        others = frozenset(ids.values()) - own
        text = State(forbidden=others | {enter}, moves=dict.fromkeys(own - {enter}, 1))
        return Automaton(states=(text, pressing), actions=actions)

    def begins(self, legal: Sequence[str] | None) -> int:
        return 0

    def understand(self, said: Sequence[ChoiceText], stop: Stop) -> Action:
        return Action(kind="answer", text=" ".join(name for name, _ in said if name))


@dataclass(frozen=True)
class Door(Environment, Episode):
    """Opened by as many ones as it can get; it hears what was understood."""

    def tasks(self, split: str, seed: int) -> Iterator[Task]:
        yield from (Task(id=f"{split}{i}", prompt=(Text(f"door {i}"),), data={}) for i in range(50))

    def start(self, task: Task) -> Door:
        return self

    def step(self, action: Action) -> Step:
        pressed = action.text.split()
        return Step(reward=float(pressed.count("one")), done=True, success=pressed[-1:] == ["enter"])


ENV = Mixture(
    parts={
        "free": Portion(env=Door(), protocol=Keys()),
        "plain": Portion(env=Door(), protocol=Tags(instruction=None)),
        "strict": Portion(env=Door(), protocol=Keys(keys=("one", "enter"), text=False)),
    }
)


@pytest.fixture(scope="module")
def run(small_run: Build, tmp_path_factory: pytest.TempPathFactory) -> Any:
    words = ("algo=grpo", "protocol=tags", "warm_start=none", "steps=2", "sampling.max_new_tokens=12")
    return replace(small_run(tmp_path_factory.mktemp("drawn"), *words), env=ENV)


def play(run: Any, policy: Any, num: int = 6) -> list[Group]:
    rollout = policy.rollout(run.env, run.sampling, ("test",))
    return rollout.sample(independent(4), list(islice(run.env.tasks("train", 0), num)))


def names_in(group: Group, agent: Any) -> Iterator[tuple[str, ...]]:
    actions = agent.policy.speech.drawn.actions
    for episode in group.trajectories:
        done = episode.turns[0].completion
        yield tuple(actions.names[i - actions.first] for i in done.chosen_ids if i >= actions.first)


def test_what_a_protocol_draws_reaches_engine_learner_and_environment(run: Any) -> None:
    agent = build_trainee(run, run.model)
    groups = play(run, agent.policy)
    for group in groups:
        for episode, names in zip(group.trajectories, names_in(group, agent)):
            done, part = episode.turns[0].completion, episode.task.env
            if part == "plain":
                assert (done.mask_ids, names, episode.turns[0].action.kind) == ((), (), "invalid")
            else:
                assert done.mask_ids[0] == agent.policy.speech.drawn.states[part]
                assert episode.turns[0].action == Action(kind="answer", text=" ".join(names))
                assert episode.reward == names.count("one")
            if part == "strict":
                assert set(names) <= {"one", "enter"}
                assert len(names) == len(done.token_ids)
    assert any(episode.success for group in groups for episode in group.trajectories)
    batch = collate(groups)
    learned = agent.learner.measure(batch)["logp"]
    assert torch.allclose(learned, batch.engine_logp_M, atol=1e-4)
    credited = batch.with_credit(per_row([t.reward for g in groups for t in g.trajectories]))
    agent.learner.update(credited, policy_loss(policy_gradient()))
    agent.sync()
    again = collate(play(run, agent.policy))
    assert torch.allclose(agent.learner.measure(again)["logp"], again.engine_logp_M, atol=1e-4)
    agent.begin()
    assert said(play(run, agent.policy)) == said(groups) == said(play(run, build_policy(run, run.model)))


def said(groups: list[Group]) -> list[tuple[int, ...]]:
    return [turn.completion.token_ids for group in groups for t in group.trajectories for turn in t.turns]


def test_a_whole_run_of_it_is_kept_with_its_rows_and_evaluated(run: Any) -> None:
    summary = train(run, Screen(silent=True))
    assert summary.status == "finished"
    (newest,) = (run.folder / CHECKPOINTS).glob("step-*2")
    saved = load_model(Model(path=str(newest)))
    assert saved.actions.names == tuple(KEYS)


def test_parts_share_an_action_or_name_it_otherwise() -> None:
    @dataclass(frozen=True, kw_only=True)
    class Other(Keys):
        @property
        def added(self) -> Mapping[str, str]:
            return {"enter": "!"}

    parts = {"a": Keys(), "b": Keys(keys=("one",)), "c": Tags()}
    assert added_by(parts) == {"one": "1", "two": " two", "enter": "="}
    with raises_naming(ValueError, "part 'd'", "action 'enter'"):
        added_by(parts | {"d": Other()})


def test_what_was_chosen_is_told_from_what_spells_it() -> None:
    actions = Actions(first=300, names=("one", "two"), descriptions=((49,), (50, 51)))

    def told(token_ids: tuple[int, ...], chosen_ids: tuple[int, ...], stop: Stop = "stop") -> list[ChoiceText]:
        done = Completion(
            token_ids=token_ids, chosen_ids=chosen_ids, logprobs=(0.0,) * len(token_ids), mask_ids=(0,), stop=stop
        )
        return list(split_choices(done, actions, lambda ids: bytes(ids).decode()))

    assert told((49, 50), ()) == [("", "12")]
    assert told((49, 49, 49, 50, 51, 52), (49, 300, 49, 301, 51, 52)) == [
        ("", "1"), ("one", "1"), ("", "1"), ("two", "23"), ("", "4")]  # fmt: skip
    assert told((49, 50), (49, 301), "length") == [("", "1"), ("two", "2")]
    assert told((49, 7), (300, 7), "eos") == [("one", "1")]
    assert told((), ()) == []


def test_the_plan_counts_a_row_for_every_action_that_a_protocol_adds(small_run: Build, tmp_path: Path) -> None:
    run = small_run(tmp_path)
    plain, keyed = Prospect(run=run).shape, Prospect(run=replace(run, protocol=Keys())).shape
    assert plain is not None
    assert keyed is not None
    assert (plain.added, keyed.added) == (0, len(KEYS))
    assert keyed.num_parameters == plain.num_parameters + len(KEYS) * plain.width
