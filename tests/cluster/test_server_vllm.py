"""vLLM behind a rollout server, in a process of its own: same log-probs, same tools, same masks."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any

import pytest
import torch

from rlx.hardware.packages import lacks
from rlx.protocol.automaton import Automaton, State
from rlx.types import Request, Sampling

pytestmark = [
    pytest.mark.cluster,
    pytest.mark.skipif(lacks("vllm") is not None, reason=f"{lacks('vllm')}; `make setup-cluster` installs it"),
]


@pytest.fixture(scope="module")
def run(small_run: Callable[..., Any], tmp_path_factory: pytest.TempPathFactory) -> Any:
    words = ("hardware=cpu_vllm", "hardware.num_slots=16", "hardware.num_servers=1", "algo.num_samples=4")
    return small_run(tmp_path_factory.mktemp("server"), *words)


@pytest.fixture(scope="module")
def agent(run: Any) -> Iterator[Any]:
    from rlx.run.fleet import open_fleet
    from rlx.run.trainee import build_trainee

    with open_fleet(run) as fleet:
        yield build_trainee(run, run.model, fleet=fleet)


def test_its_log_probs_are_the_learner_s_before_and_after_three_updates(run: Any, agent: Any) -> None:
    from rlx.learner.batch import collate

    said = []
    for version in range(4):
        rollout = agent.policy.rollout(run.env, run.sampling, ("test",), prepare=agent.sync)
        groups = rollout.sample(run.algo.sample, list(islice(run.env.tasks("train", 0), 3)))
        turns = [turn for group in groups for t in group.trajectories for turn in t.turns]
        assert {turn.completion.version for turn in turns} == {version}
        assert any(turn.tool.num_calls for turn in turns)
        batch = collate(groups)
        assert torch.allclose(agent.learner.measure(batch)["logp"], batch.engine_logp_M, atol=1e-4)
        said.append([turn.completion.token_ids for turn in turns])
        with torch.no_grad():
            for parameter in agent.learner.scorer.model.parameters():
                parameter.mul_(1.01)
        agent.learner.num_updates = version + 1
    assert said[0] != said[3]
    assert agent.policy.engine.counts.num_reused > 0


def test_its_samples_obey_their_automaton(agent: Any) -> None:
    first = State(allowed=frozenset(range(30, 60)), moves={40: 1, 41: 1})
    automaton = Automaton(states=(first, State(allowed=frozenset({7}), moves={7: 0})))
    engine = agent.policy.engine
    engine.use(automaton)
    engine.load(agent.learner.weights(), engine.version)
    for session in range(40):
        sampling = Sampling(max_new_tokens=25, temperature=2.0)
        engine.add(Request(session=session, stream=session, prompt_ids=(50, 60), sampling=sampling, state=0))
    done: list[Any] = []
    while len(done) < 40:
        done += [completion for _, completion in engine.step()]
    pairs = [(token, state) for c in done for token, state in zip(c.token_ids, c.mask_ids, strict=True)]
    assert all(automaton.states[state].allows(token) for token, state in pairs)
    assert {state for _, state in pairs} == {0, 1}
    for session in range(40):
        engine.release(session)
