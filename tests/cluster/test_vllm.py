"""vLLM for real, on CPU, with the embedded model: its log-probs are the learner's, after every kind of sync too."""

from __future__ import annotations

import copy
import json
import math
import os
import subprocess
import sys
import threading
import weakref
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from rlx.algo.credit import per_row
from rlx.hardware.packages import lacks
from rlx.model.expand import expand
from rlx.protocol.automaton import Automaton, State, spell_out
from rlx.rollout.vllm.settings import CPU_BLOCK as BLOCK
from rlx.types import Completion, Request, Sampling, Start
from tests.errors import raises_naming

pytestmark = [
    pytest.mark.cluster,
    pytest.mark.skipif(lacks("vllm") is not None, reason=f"{lacks('vllm')}; `make setup-cluster` installs it"),
]
GAP = 1e-4
ROOT = Path(__file__).resolve().parents[2]
ENGINE = ("hardware=cpu_vllm", "hardware.num_slots=32", "hardware.num_live=40")


@pytest.fixture(scope="module")
def run(small_run: Callable[..., Any], tmp_path_factory: pytest.TempPathFactory) -> Any:
    return small_run(tmp_path_factory.mktemp("vllm"), *ENGINE)


@pytest.fixture(scope="module")
def agent(run: Any) -> Any:
    from rlx.run.trainee import build_trainee

    return build_trainee(run, run.model)


@pytest.fixture(scope="module")
def engine(agent: Any) -> Any:
    return agent.policy.engine


@pytest.fixture(scope="module")
def nano(run: Any) -> Any:
    """What log-probs are compared with: the model in transformers."""
    from rlx.model.load import load_model

    return load_model(run.model).eval()


@pytest.fixture
def start(nano: Any, engine: Any) -> Iterator[Any]:
    """The engine with nano's own weights, nothing cached, no session held."""
    engine.use(WALK)
    engine.load(nano.state_dict(), 0)
    yield engine
    for session in list(engine._session_ids):
        engine.release(session)


def ask(session: int, prompt: list[int], *, stream: int | None = None, **options: Any) -> Request:
    sampling = {key: options.pop(key) for key in tuple(options) if key in Sampling.__dataclass_fields__}
    return Request(
        session=session,
        stream=2**63 + session if stream is None else stream,
        prompt_ids=tuple(prompt),
        sampling=Sampling(**{"max_new_tokens": 12, **sampling}),
        **options,
    )


def finish(engine: Any, *requests: Request) -> dict[int, Completion]:
    for request in requests:
        engine.add(request)
    done: dict[int, Completion] = {}
    while len(done) < len(requests):
        done.update({request.session: completion for request, completion in engine.step()})
    return done


def ids(seed: int, length: int) -> list[int]:
    return torch.randint(20, 1200, (length,), generator=torch.Generator().manual_seed(seed)).tolist()


def reference(model: Any, request: Request, completion: Completion) -> torch.Tensor:
    """The completion's log-probs by transformers, in one pass over the context, under temperature and automaton."""
    context = torch.tensor([[*request.prompt_ids, *completion.token_ids]])
    first = len(request.prompt_ids)
    with torch.no_grad():
        logits = model(context).logits[0, first - 1 : -1] / (request.sampling.temperature or 1.0)
    for place, state in enumerate(completion.mask_ids):
        logits[place, [i for i in range(logits.shape[1]) if not WALK.states[state].allows(i)]] = -math.inf
    return logits.log_softmax(-1).gather(1, context[0, first:, None])[:, 0]


def largest_gap(model: Any, requests: list[Request], done: dict[int, Completion]) -> float:
    return max(
        (reference(model, request, done[request.session]) - torch.tensor(done[request.session].logprobs)).abs().max()
        for request in requests
    ).item()


def play(agent: Any, run: Any, step: int) -> list[Any]:
    """Groups of Countdown episodes, and what the engine said of their tokens."""
    from itertools import islice

    rollout = agent.policy.rollout(run.env, run.sampling, ("test", step), prepare=agent.sync)
    return rollout.sample(run.algo.sample, list(islice(run.env.tasks("train", step), run.algo.num_prompts)))


def episode_gap(model: Any, groups: list[Any], sampling: Sampling) -> float:
    turns = [turn for group in groups for episode in group.trajectories for turn in episode.turns]
    gaps = []
    for turn in turns:
        request = Request(session=0, stream=0, prompt_ids=turn.prompt_ids, sampling=sampling)
        gaps.append((reference(model, request, turn.completion) - torch.tensor(turn.completion.logprobs)).abs().max())
    return max(gaps).item()


@pytest.mark.parametrize("how", [{}, {"temperature": 0.6}, {"temperature": 0.0}, {"top_k": 5}, {"top_p": 0.7}])
def test_log_probs_are_those_before_filters(start: Any, nano: Any, how: dict[str, Any]) -> None:
    requests = [ask(session, ids(session, 5 + 9 * session), **how) for session in range(6)]
    assert largest_gap(nano, requests, finish(start, *requests)) < GAP


def test_settings_of_neighbours_do_not_mix(start: Any, nano: Any) -> None:
    hows: list[dict[str, Any]] = [{}, {"temperature": 0.0}, {"temperature": 0.5, "top_k": 3}, {"top_p": 0.5}]
    requests = [ask(session, ids(session, 20), **how) for session, how in enumerate(hows)]
    assert largest_gap(nano, requests, finish(start, *requests)) < GAP


def test_greedy_decoding_is_that_of_the_torch_engine(start: Any, nano: Any, agent: Any) -> None:
    from rlx.rollout.torch.engine import TorchEngine

    ours = TorchEngine(
        config=nano.config,
        weights=nano.state_dict(),
        tokenizer=agent.tokenizer,
        eos_ids=start.vocabulary.eos_ids,
        num_slots=8,
    )
    requests = [ask(session, ids(session, 15), temperature=0.0, max_new_tokens=30) for session in range(8)]
    theirs, expected = finish(start, *requests), finish(ours, *requests)
    assert {s: (c.token_ids, c.stop) for s, c in theirs.items()} == {
        s: (c.token_ids, c.stop) for s, c in expected.items()
    }


def test_the_same_stream_gives_the_same_tokens_whoever_is_beside_it(start: Any, nano: Any) -> None:
    request = ask(3, ids(3, 20), max_new_tokens=30)
    alone = finish(start, request)[3]
    start.load(nano.state_dict(), 0)
    crowd = finish(start, *(ask(s, ids(s, 10 + s), max_new_tokens=30) if s != 3 else request for s in range(8)))[3]
    start.load(nano.state_dict(), 0)
    again, other = finish(start, request)[3], finish(start, ask(4, ids(3, 20), stream=5, max_new_tokens=30))[4]
    assert alone == again
    assert alone.token_ids == crowd.token_ids
    assert alone.token_ids != other.token_ids


def test_the_same_streams_give_the_tokens_of_the_torch_engine(start: Any, nano: Any, agent: Any) -> None:
    from rlx.rollout.torch.engine import TorchEngine

    ours = TorchEngine(
        config=nano.config,
        weights=nano.state_dict(),
        tokenizer=agent.tokenizer,
        eos_ids=start.vocabulary.eos_ids,
        num_slots=8,
        automaton=WALK,
    )
    hows: list[dict[str, Any]] = [{}, {"temperature": 0.6, "top_k": 20, "top_p": 0.95}, {"top_k": 5}, {"top_p": 0.5}]
    requests = [ask(s, ids(s, 15), max_new_tokens=10, state=0 if s > 5 else None, **hows[s % 4]) for s in range(8)]
    theirs, expected = finish(start, *requests), finish(ours, *requests)
    assert {s: c.token_ids for s, c in theirs.items()} == {s: c.token_ids for s, c in expected.items()}


def test_many_streams_of_one_prompt_are_distributed_as_the_model_says(start: Any, nano: Any) -> None:
    num, prompt = 2000, ids(1, 12)
    done = finish(start, *(ask(s, prompt, max_new_tokens=1, top_k=6) for s in range(num)))
    counts = torch.bincount(torch.tensor([done[s].token_ids[0] for s in range(num)]), minlength=nano.config.vocab_size)
    with torch.no_grad():
        kept, order = nano(torch.tensor([prompt])).logits[0, -1].softmax(-1).topk(6)
    expected = num * kept / kept.sum()
    assert counts[order].sum() == num
    assert ((counts[order] - expected) ** 2 / expected).sum() < 20.5  # chi-square, 5 degrees of freedom, p = 0.001


@pytest.mark.parametrize("temperature", [1e-38, 1e-6, 5.0])
def test_temperatures_that_vllm_would_not_take_are_sampled(start: Any, temperature: float) -> None:
    hot, plain = ask(0, ids(0, 9), temperature=temperature), ask(1, ids(0, 9), temperature=0.0)
    done = finish(start, hot, plain)
    assert all(math.isfinite(logprob) for logprob in done[0].logprobs)
    assert (done[0].token_ids == done[1].token_ids) == (temperature < 1)


def test_a_fork_goes_on_from_what_it_is_given_and_finds_it_in_the_cache(start: Any, nano: Any) -> None:
    prompt, watch = ids(70, 100), (5, 9)
    (parent,) = finish(start, ask(0, prompt, group=0, max_new_tokens=40)).values()
    given = (*parent.token_ids[:5], 60, 61, 62)
    before = start.counts.num_prefilled
    asked = ask(1, prompt, completion_prefix=given, group=0, watch=watch, temperature=0.7, max_new_tokens=45)
    done = finish(start, asked)[1]
    assert (done.token_ids[:8], done.logprobs[:8]) == (given, (0.0,) * 8)
    assert len(done.token_ids) > 8
    assert start.counts.num_prefilled - before <= 3 + BLOCK
    assert (reference(nano, asked, done)[8:] - torch.tensor(done.logprobs[8:])).abs().max() < GAP
    with torch.no_grad():
        logits = nano(torch.tensor([[*prompt, *done.token_ids]])).logits[0, 107:-1] / 0.7
    truth = logits.log_softmax(-1)[:, list(watch)]
    assert done.watched[:8] == ((),) * 8
    assert (truth - torch.tensor(done.watched[8:])).abs().max() < GAP


def test_stop_strings_eos_and_limits_end_a_completion(start: Any, agent: Any) -> None:
    text = "Using the numbers [44, 19, 35], create an equation that equals 98."
    prompt = agent.tokenizer.encode(text, add_special_tokens=False)
    told = finish(
        start,
        ask(0, prompt, stops=("never said", ") = "), max_new_tokens=60, temperature=0.0),
        ask(1, prompt, max_new_tokens=5, temperature=0.0),
        ask(2, prompt, max_new_tokens=5, max_context=len(prompt) + 3),
        ask(3, prompt, max_context=len(prompt)),
    )
    assert ") = " in agent.tokenizer.decode(told[0].token_ids)
    assert ") = " not in agent.tokenizer.decode(told[0].token_ids[:-1])
    assert [told[s].stop for s in range(4)] == ["stop", "length", "context", "context"]
    assert [len(told[s].token_ids) for s in (1, 2, 3)] == [5, 3, 0]
    eos = min(start.vocabulary.eos_ids)
    start.use(Automaton(states=(State(allowed=frozenset({eos})),)))
    ended = finish(start, ask(9, prompt, state=0))[9]
    assert (ended.token_ids, ended.stop) == ((eos,), "eos")


def test_countdown_episodes_reuse_what_their_sessions_computed(start: Any, agent: Any, run: Any, nano: Any) -> None:
    rollout = agent.policy.rollout(run.env, run.sampling, ("episodes",))
    before = start.counts.num_reused
    tasks = [task for task, _ in zip(run.env.tasks("train", 5), range(6), strict=False)]
    episodes = rollout.play([Start(task=task, sample=0) for task in tasks])
    assert all(episode.status != "error" for episode in episodes)
    assert sum(episode.tool.num_calls for episode in episodes) > 0
    turns = [turn for episode in episodes for turn in episode.turns]
    assert len(turns) > len(episodes)
    reused = start.counts.num_reused - before
    assert reused > 0.5 * sum(len(turn.prompt_ids) for episode in episodes for turn in episode.turns[1:])
    groups = [type("G", (), {"trajectories": episodes})()]
    assert episode_gap(nano, groups, run.sampling) < GAP


def test_log_probs_equal_the_learners_before_and_after_three_updates(agent: Any, run: Any, nano: Any) -> None:
    from copy import deepcopy

    from rlx.learner.batch import collate
    from rlx.learner.rows import rows

    copy = deepcopy(nano)
    for step in range(4):
        copy.load_state_dict(agent.learner.weights(), strict=False)
        groups = play(agent, run, step)
        assert {t.completion.version for g in groups for e in g.trajectories for t in e.turns} == {step}
        assert episode_gap(copy, groups, run.sampling) < GAP
        batch = agent.learner.annotate(collate(groups), run.algo.needs)
        metrics = agent.learner.update(
            batch.with_credit(per_row(torch.randn(len(rows(groups, batch).reward)))), run.algo.loss, run.algo.unit
        )
        assert metrics["gap/engine"] < GAP
    moved = max((a - b).abs().max().item() for a, b in zip(copy.parameters(), nano.parameters(), strict=True))
    assert moved > 1e-4


def test_merged_adapters_are_taken_too(start: Any, run: Any, nano: Any) -> None:
    from copy import deepcopy

    from rlx.learner.torch import TorchLearner
    from rlx.model.load import Lora, Model, load_model

    loaded = load_model(Model(path="nano", lora=Lora(rank=4)))
    with torch.no_grad():
        for name, parameter in loaded.named_parameters():
            if "lora_B" in name:
                parameter.normal_(std=0.05, generator=torch.Generator().manual_seed(1))
    adapted = deepcopy(loaded).eval()
    learner = TorchLearner(loaded, optimizer=run.algo.optimizer, num_steps=1, needs=frozenset())
    start.load(learner.weights(), 1)
    requests = [ask(session, ids(session, 20)) for session in range(4)]
    done = finish(start, *requests)
    assert largest_gap(adapted, requests, done) < GAP
    assert largest_gap(nano, requests, done) > 10 * GAP


def test_weights_arrive_through_a_rollout_server(start: Any, nano: Any) -> None:
    from copy import deepcopy

    from rlx.rollout.remote.engine import RemoteEngine
    from rlx.rollout.remote.link import link_all
    from rlx.rollout.remote.server import RolloutServer

    server = RolloutServer(start, token="open sesame")
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    remote = RemoteEngine(link_all([server.address], "open sesame"))
    try:
        copy = deepcopy(nano)
        for version in range(1, 4):
            with torch.no_grad():
                for index, parameter in enumerate(copy.parameters()):
                    noise = torch.randn(parameter.shape, generator=torch.Generator().manual_seed(version + 10 * index))
                    parameter.add_(noise * 0.01)
            remote.load(copy.state_dict(), version)
            requests = [ask(session, ids(session, 20 + version)) for session in range(6)]
            done = finish(remote, *requests)
            assert {completion.version for completion in done.values()} == {version}
            assert largest_gap(copy, requests, done) < GAP
            for session in range(6):
                remote.release(session)
    finally:
        remote.close()
        server.shutdown()
        server.server_close()
        thread.join()


WALK = Automaton(
    states=(
        State(allowed=frozenset({40, 41, 42}), moves={40: 1, 41: 2}),
        State(allowed=frozenset(range(100, 120)), moves=dict.fromkeys(range(100, 110), 2)),
        State(allowed=frozenset({7, 8}), moves={7: 0, 8: 1}),
    )
)


def test_a_thousand_samples_obey_their_automaton(start: Any, nano: Any) -> None:
    masked = [ask(s, ids(s % 7, 6 + s % 5), state=0, max_new_tokens=4) for s in range(1000)]
    free = [ask(s, ids(s, 9), max_new_tokens=4) for s in range(1000, 1050)]
    done = finish(start, *(request for pair in zip(masked[:50], free, strict=True) for request in pair), *masked[50:])
    for request in masked:
        state = 0
        completion = done[request.session]
        assert len(completion.mask_ids) == len(completion.token_ids) == 4
        for token, mask in zip(completion.token_ids, completion.mask_ids, strict=True):
            assert mask == state
            assert WALK.states[state].allows(token)
            state = WALK.states[state].moves.get(token, state)
    allowed = set().union(*(state.allowed or () for state in WALK.states))
    assert {token for request in free for token in done[request.session].token_ids} - allowed
    assert largest_gap(nano, [*masked[:40], *free[:10]], done) < GAP


@pytest.fixture
def expanded(nano: Any, engine: Any) -> Iterator[tuple[Any, Automaton]]:
    """The engine and a copy of nano with three added actions, one of two tokens, and an automaton of them."""
    model = copy.deepcopy(nano)
    actions = expand(model, {"calculate": (312,), "sum": (435, 410), "equals": (29,)})
    calculate, sum_, equals = (actions.first + i for i in range(3))
    inside = State(allowed=frozenset(range(16, 26)) | {equals}, ends=frozenset({equals}))
    entry = State(forbidden=frozenset({equals, *range(600)}), moves={calculate: 0, sum_: 0})
    with torch.no_grad():
        model.action_rows.add_(0.3 * torch.randn(model.action_rows.shape, generator=torch.Generator().manual_seed(3)))
    automaton = spell_out(Automaton(states=(inside, entry), actions=actions))
    engine.use(automaton)
    engine.load(model.state_dict(), 0)
    yield model, automaton
    for session in list(engine._session_ids):
        engine.release(session)


def test_added_actions_are_those_of_the_torch_engine(engine: Any, agent: Any, expanded: Any) -> None:
    from rlx.rollout.torch.engine import TorchEngine

    model, automaton = expanded
    requests = [ask(s, ids(s, 15), temperature=1.5, state=(1, 0, None)[s % 3]) for s in range(60)]
    theirs = finish(engine, *requests)
    common = {
        "config": model.config,
        "tokenizer": agent.tokenizer,
        "eos_ids": engine.vocabulary.eos_ids,
        "num_slots": 60,
    }
    ours = finish(TorchEngine(weights=model.state_dict(), automaton=automaton, **common), *requests)
    for session, completion in theirs.items():
        expected = ours[session]
        assert completion.logprobs == pytest.approx(expected.logprobs, abs=GAP)
        assert replace(completion, logprobs=()) == replace(expected, logprobs=())
    chosen = {i for c in theirs.values() for i in c.chosen_ids}
    assert {i for i in chosen if i >= model.config.vocab_size} == {automaton.actions.first + i for i in range(3)}
    assert {c.stop for c in theirs.values()} >= {"stop", "length"}


def test_added_actions_follow_the_learner_through_a_step(engine: Any, expanded: Any) -> None:
    from rlx.algo.losses import policy_gradient, policy_loss
    from rlx.algo.parts import Optimizer
    from rlx.learner.batch import collate
    from rlx.learner.torch import TorchLearner
    from rlx.types import Action, Group, Task, Trajectory, Turn

    model, automaton = expanded
    learner = TorchLearner(copy.deepcopy(model), optimizer=Optimizer(lr=1e-2), num_steps=2, automaton=automaton)

    def batch() -> Any:
        requests = [ask(s, ids(s, 9), state=s % 2) for s in range(16)]
        done = finish(engine, *requests)
        for request in requests:
            engine.release(request.session)
        act, task = Action(kind="answer", text=""), Task(id="t", prompt=(), data={})
        turns = [Turn(prompt_ids=r.prompt_ids, completion=done[r.session], action=act) for r in requests]
        alive = [Trajectory(task=task, sample=i, turns=(turn,), status="done") for i, turn in enumerate(turns)]
        return collate([Group(task=task, trajectories=tuple(alive))])

    for version in range(2):
        sampled = batch()
        assert torch.allclose(learner.measure(sampled)["logp"], sampled.engine_logp_M, atol=GAP)
        learner.update(
            replace(sampled, advantage_M=torch.linspace(-1, 1, sampled.num_tokens)), policy_loss(policy_gradient())
        )
        engine.load(learner.weights(), version + 1)
    assert not learner.model.action_rows.equal(model.action_rows)


def test_an_engine_without_an_automaton_leaves_added_rows_aside(engine: Any, nano: Any, expanded: Any) -> None:
    model, _ = expanded
    engine.use(None)
    engine.load(model.state_dict(), 0)
    requests = [ask(s, ids(s, 9)) for s in range(4)]
    assert largest_gap(nano, requests, finish(engine, *requests)) < GAP


def test_a_sample_outside_its_automaton_raises(start: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(start._vllm.chooser, "masks", None)
    with raises_naming(RuntimeError, "session 5", "state 0"):
        finish(start, ask(5, ids(5, 10), state=0))


def test_a_released_request_leaves_the_others_alone(start: Any) -> None:
    start.add(ask(0, ids(0, 10), max_new_tokens=20))
    start.step()
    with raises_naming(ValueError, "session 0", "under way"):
        start.add(ask(0, ids(0, 10)))
    with raises_naming(ValueError, "being decoded"):
        start.load({}, 1)
    start.add(ask(1, ids(1, 10), max_new_tokens=3))
    start.release(0)
    done = {request.session for _ in range(5) for request, _ in start.step()}
    assert done == {1}
    assert len(finish(start, ask(0, ids(0, 10)))[0].token_ids) > 0


@pytest.mark.parametrize(
    ("prompt", "options", "names"),
    [
        ([], {}, ["session 7:", "empty"]),
        ([10**6], {}, ["session 7:", "vocabulary"]),
        ([50], {"max_context": 10**6}, ["session 7:", "max_context is 1000000"]),
        ([50], {"stops": ("",)}, ["stops:", "empty"]),
    ],
)
def test_requests_that_cannot_be_sampled_are_refused(
    start: Any, prompt: list[int], options: dict[str, Any], names: list[str]
) -> None:
    with raises_naming(ValueError, *names):
        start.add(ask(7, prompt, **options))
    assert finish(start, ask(7, [50], max_new_tokens=1))[7].stop == "length"


def test_weights_that_are_missing_or_broken_are_told(start: Any, nano: Any) -> None:
    some = {name: tensor for name, tensor in nano.state_dict().items() if "layers.2.mlp" not in name}
    with raises_naming(RuntimeError, "weights", "model.layers.2.mlp."):
        start.load(some, 8)
    broken = {**nano.state_dict(), "model.norm.weight": torch.full((nano.config.hidden_size,), math.nan)}
    start.load(broken, 9)
    with raises_naming(FloatingPointError, "version 9", "not finite"):
        finish(start, ask(0, ids(0, 10)))
    start.release(0)
    start.load(nano.state_dict(), 10)
    request = ask(0, ids(0, 10))
    assert largest_gap(nano, [request], finish(start, request)) < GAP


def test_an_engines_end_is_not_that_of_the_process_group(nano: Any, agent: Any) -> None:
    from rlx.rollout.vllm import llm as vllm
    from rlx.rollout.vllm.engine import VllmEngine

    def build(num_slots: int) -> VllmEngine:
        return VllmEngine(
            config=nano.config,
            weights=nano.state_dict(),
            tokenizer=agent.tokenizer,
            eos_ids=(),
            num_slots=num_slots,
            max_context=256,
            memory=0.02,
        )

    first = build(4)
    instance = first._vllm
    first.add(ask(0, ids(0, 10), max_context=256))
    del first
    assert list(vllm.IDLE) == [instance]
    second = build(4)
    assert second._vllm is instance
    ended = weakref.ref(instance._llm.llm_engine.engine_core)
    del second, instance
    third = build(5)
    assert ended() is None
    assert torch.distributed.is_initialized()
    request = ask(0, ids(0, 10), max_context=256)
    assert largest_gap(nano, [request], finish(third, request)) < GAP


def test_a_whole_run_trains_through_vllm(tmp_path: Path, small_words: tuple[str, ...]) -> None:
    words = [*(word for word in small_words if not word.startswith(("steps=", "warm_start="))), *ENGINE, "steps=2"]
    words += ["warm_start=tool_sft", "warm_start.steps=1"]
    done = subprocess.run(
        [sys.executable, "-m", "rlx", "train", *words, f"hydra.run.dir={tmp_path / 'run'}"],
        cwd=ROOT,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    lines = [json.loads(line) for line in (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()]
    assert [line["step"] for line in lines] == [1, 2]
    assert all(line["gap/engine"] < GAP and line["episode/errors"] == 0 for line in lines)
