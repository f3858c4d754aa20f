"""Places of twins are weighed by the probability of the whole description, as a separate forward pass finds it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import islice
from pathlib import Path
from random import Random
from typing import Any

import pytest
import torch

from rlx.algo.entry import Probe
from rlx.algo.parts import Sampler, SamplerContext
from rlx.algo.twins import Twin, Twins, begin_twins, places_of, watched_of, weigh_places, with_twins
from rlx.model.load import load_base
from rlx.run.trainee import build_trainee
from rlx.types import Group, Start, Turn

Build = Callable[..., Any]
OTHER = ("env=", "env.", "algo=")
CASES = {
    "routes": ("env=sorting/sort2", "algo=earl"),
    "tags": ("env=calc/arithmetic_small", "algo=prompt_cpo"),
    "hot": ("env=sorting/sort2", "algo=earl", "sampling.temperature=0.7"),
}


@pytest.fixture(scope="module", params=CASES)
def run(request: pytest.FixtureRequest, small_run: Build, tmp_path_factory: pytest.TempPathFactory) -> Any:
    words = (*CASES[request.param], "sampling.max_new_tokens=10", "algo.num_prompts=2")
    return small_run(tmp_path_factory.mktemp(request.param), *words, without=OTHER)


def weighed(run: Any, agent: Any, left: list[Twin]) -> Sampler:
    """A sampler that plays two episodes a task and keeps their weighed twins instead of playing them."""

    def grow(context: SamplerContext) -> Any:
        task, entries, rng = context.task, context.entries, context.rng
        watch = watched_of(entries)
        factual = yield [Start(task=task, sample=i, watch=watch) for i in range(2)]
        twins = list(begin_twins(factual, entries, watch, Twins(), {}, rng))
        yield from weigh_places(twins, Twins(num_probed=0))
        left.extend(twins)
        return Group(task=task, trajectories=tuple(factual))

    return Sampler(num_episodes=2, grow=grow, forces=True, watches=True)


def teacher_forced(model: Any, run: Any, agent: Any, turn: Turn, token: int, ids: Sequence[int]) -> float:
    """Return the sum of the log-probs of `ids`, by transformers' own pass over the context and the description."""
    done = turn.completion
    before = [*turn.prompt_ids, *done.token_ids[:token]]
    with torch.no_grad():
        hidden = model.model(torch.tensor([[*before, *ids]])).last_hidden_state[0, len(before) - 1 : -1]
        rows = [model.get_output_embeddings().weight, *([model.action_rows] if hasattr(model, "action_rows") else [])]
        z = hidden @ torch.cat(rows).T / run.sampling.temperature
    if done.mask_ids:
        state = agent.policy.speech.drawn.automaton.states[done.mask_ids[token]]
        z[:, [not state.allows(i) for i in range(z.shape[1])]] = -torch.inf
    return float(z.log_softmax(-1).gather(1, torch.tensor(ids)[:, None]).sum())


def test_a_place_s_weight_is_the_probability_of_all_tokens_of_the_description(run: Any) -> None:
    agent = build_trainee(run, run.model)
    model = load_base(run.model, dtype="float32", attention="sdpa", added=agent.added)
    rollout = agent.policy.rollout(run.env, run.sampling, ("test",))
    left: list[Twin] = []
    rollout.sample(weighed(run, agent, left), list(islice(run.env.tasks("train", 0), 4)))
    assert left
    num = 0
    for twin in left:
        description = twin.entry.description
        assert len(description) in (2, 3)
        text = agent.policy.speech.decode(description)
        is_tag = twin.entry.description == twin.entry.chosen
        assert text == (f"<{twin.entry.name}>" if is_tag else f" {twin.entry.name}")
        for weight, (turn, token) in twin.places:
            expected = teacher_forced(model, run, agent, twin.parent.turns[turn], token, description)
            assert weight == pytest.approx(expected, abs=2e-3)
            num += 1
    assert num > 20


def test_a_context_without_room_for_the_description_is_no_place(run: Any, tmp_path: Path) -> None:
    agent = build_trainee(run, run.model)
    rollout = agent.policy.rollout(run.env, run.sampling, ("test",))
    tasks = list(islice(run.env.tasks("train", 0), 2))
    groups = rollout.sample(with_twins(2, Twins()), tasks)
    (entry, *_) = rollout.worlds[""].speech.entries
    turn = groups[0].trajectories[0].turns[0]
    answers: list[Any] = []
    length = run.sampling.max_context - len(turn.prompt_ids) - 1
    probes = [Probe(turn=turn, token=0, ids=entry.description * num, skip=1) for num in (1, length)]

    def ask(context: SamplerContext) -> Any:
        factual = yield [Start(task=context.task, sample=0)]
        answers.extend((yield probes))
        return Group(task=context.task, trajectories=tuple(factual))

    rollout.sample(Sampler(num_episodes=1, grow=ask), tasks[:1])
    assert [answer > -torch.inf for answer in answers] == [True, False]


def test_what_the_release_weighs_asks_for_no_probe(run: Any) -> None:
    agent = build_trainee(run, run.model)
    rollout = agent.policy.rollout(run.env, run.sampling, ("test",))
    (group,) = rollout.sample(with_twins(2, Twins()), list(islice(run.env.tasks("train", 0), 1)))
    entries = rollout.worlds[""].speech.entries
    watch = watched_of(entries)
    factual = [one for one in group.trajectories if one.fork is None]
    twins = list(begin_twins(factual, entries, watch, Twins(likely="either"), {}, Random(0)))
    assert list(weigh_places(twins, Twins(likely="either"))) == []
    for twin in twins:
        assert twin.places == list(places_of(twin.parent, twin.entry, watch, "either"))
