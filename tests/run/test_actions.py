"""Actions beyond the vocabulary, end to end on the embedded model: a route, digits, an exit.

text: any id, `calculate` or `sum`  --calculate-->  digits only  --equals--> the completion ends
"""

from __future__ import annotations

import copy
import threading
from dataclasses import replace
from typing import Any

import pytest
import torch

from rlx.algo.losses import policy_gradient, policy_loss
from rlx.algo.parts import Optimizer
from rlx.learner.batch import collate
from rlx.learner.lora import base_of
from rlx.learner.packing import pack
from rlx.learner.state import write_model
from rlx.learner.torch import TorchLearner
from rlx.model.expand import expand
from rlx.model.load import Lora, Model, load_model, load_tokenizer
from rlx.protocol.automaton import Actions, Automaton, State, spell_out
from rlx.rollout.remote.engine import RemoteEngine
from rlx.rollout.remote.link import link_all
from rlx.rollout.remote.server import RolloutServer
from rlx.rollout.torch.engine import TorchEngine
from rlx.types import Action, Completion, Group, Request, Sampling, Task, Trajectory, Turn
from tests.errors import raises_naming

NANO = Model(path="nano")
WANTED = {"calculate": (312,), "sum": (435, 410), "equals": (29,)}
DIGITS = frozenset(range(16, 26))
TEXT, INSIDE, ENTRY = 0, 1, 2


def automaton_of(actions: Actions) -> Automaton:
    calculate, sum_, equals = (actions.first + i for i in range(3))
    text = State(forbidden=frozenset({equals}), moves={calculate: INSIDE})
    inside = State(allowed=DIGITS | {equals}, ends=frozenset({equals}))
    entry = State(allowed=frozenset({calculate, sum_}), moves={calculate: INSIDE, sum_: INSIDE})
    return spell_out(Automaton(states=(text, inside, entry), actions=actions))


def engine_of(model: Any, weights: Any, automaton: Automaton | None) -> TorchEngine:
    base = base_of(model)
    return TorchEngine(
        config=base.config, weights=weights, tokenizer=load_tokenizer(NANO), eos_ids=(), automaton=automaton
    )


def sample(engine: Any, num: int = 12, temperature: float = 1.0) -> list[Trajectory]:
    """One turn each; a third start in the text, a third on entry, a third without an automaton."""
    states = [(TEXT, ENTRY, None)[i % 3] for i in range(num)]
    sampling = Sampling(max_new_tokens=12, temperature=temperature)
    prompts = [tuple(range(40, 46 + i % 5)) for i in range(num)]
    for i, (prompt, state) in enumerate(zip(prompts, states, strict=True)):
        engine.add(Request(session=i, stream=i, prompt_ids=prompt, sampling=sampling, state=state))
    done: dict[int, Completion] = {}
    while len(done) < num:
        done |= {request.session: completion for request, completion in engine.step()}
    task, act = Task(id="t", prompt=(), data={}), Action(kind="answer", text="")
    turns = [Turn(prompt_ids=prompts[i], completion=done[i], action=act, reward=float(i % 2)) for i in range(num)]
    return [Trajectory(task=task, sample=i, turns=(turn,), status="done") for i, turn in enumerate(turns)]


def batch_of(trajectories: list[Trajectory]) -> Any:
    return collate([Group(task=trajectories[0].task, trajectories=tuple(trajectories))])


def reference(model: Any, automaton: Automaton, turn: Turn, temperature: float = 1.0) -> list[float]:
    """Log-probs of what was chosen by transformers' hidden states, in one pass over the context as it stands."""
    done = turn.completion
    context = torch.tensor([[*turn.prompt_ids, *done.token_ids]])
    with torch.no_grad():
        hidden = model.model(context).last_hidden_state[0, len(turn.prompt_ids) - 1 : -1]
        z = hidden @ torch.cat((model.get_output_embeddings().weight, model.action_rows)).T / temperature
    vocabulary = model.config.vocab_size
    for place, state in enumerate(done.mask_ids or [-1] * len(done.token_ids)):
        free = [i < vocabulary if state < 0 else automaton.states[state].allows(i) for i in range(z.shape[1])]
        z[place, ~torch.tensor(free)] = -torch.inf
    chosen = torch.tensor(done.chosen_ids or done.token_ids)
    return z.log_softmax(-1).gather(1, chosen[:, None])[:, 0].tolist()


def learner_of(model: Any, automaton: Automaton | None, temperature: float = 1.0) -> TorchLearner:
    settings: dict[str, Any] = {"optimizer": Optimizer(lr=1e-2), "num_steps": 4, "micro_batch_tokens": 100}
    return TorchLearner(model, automaton=automaton, temperature=temperature, **settings)


@pytest.fixture
def nano() -> tuple[Any, Automaton]:
    model = load_model(NANO)
    return model, automaton_of(expand(model, WANTED))


def test_at_first_an_action_is_as_likely_as_its_description(nano: tuple[Any, Automaton]) -> None:
    model, automaton = nano
    prompt, common = (50, 60, 70), {"logprobs": (0.0,), "mask_ids": (TEXT,), "stop": "stop"}
    chosen: list[dict[str, Any]] = [{}, {"chosen_ids": (model.config.vocab_size,)}]
    said = [Completion(token_ids=(312,), **common, **each) for each in chosen]
    turns = [Turn(prompt_ids=prompt, completion=each, action=Action(kind="answer", text="")) for each in said]
    task = Task(id="t", prompt=(), data={})
    batch = batch_of([Trajectory(task=task, sample=i, turns=(t,), status="done") for i, t in enumerate(turns)])
    expected = reference(model, automaton, turns[0])[0]
    assert learner_of(model, automaton).measure(batch)["logp"].tolist() == pytest.approx([expected, expected], abs=1e-5)


@pytest.mark.parametrize("temperature", [1.0, 0.7])
def test_engine_learner_and_transformers_agree(nano: tuple[Any, Automaton], temperature: float) -> None:
    model, automaton = nano
    trajectories = sample(engine_of(model, model.state_dict(), automaton), 30, temperature)
    turns = [t.turns[0] for t in trajectories]
    for turn in turns:
        assert turn.completion.logprobs == pytest.approx(reference(model, automaton, turn, temperature), abs=1e-4)
    batch = batch_of(trajectories)
    learner = learner_of(model, automaton, temperature)
    torch.testing.assert_close(learner.measure(batch)["logp"], batch.engine_logp_M, atol=1e-4, rtol=0)


def test_contexts_hold_descriptions_and_completions_what_was_chosen(nano: tuple[Any, Automaton]) -> None:
    model, automaton = nano
    first = model.config.vocab_size
    for i, trajectory in enumerate(sample(engine_of(model, model.state_dict(), automaton), 60)):
        done = trajectory.turns[0].completion
        assert max(done.token_ids) < first
        if i % 3 == 2:
            assert (done.chosen_ids, done.mask_ids) == ((), ())
        if i % 3 == 1:
            begun = 2 if done.chosen_ids[0] == first + 1 else 1
            assert done.chosen_ids[:begun] == ((first + 1, 410) if begun == 2 else (first,))
            assert done.token_ids[:begun] == ((435, 410) if begun == 2 else (312,))
            is_over = done.chosen_ids[-1] == first + 2
            assert (done.stop, done.token_ids[-1] == 29) == (("stop", True) if is_over else ("length", False))
            assert set(done.token_ids[begun : -1 if is_over else None]) <= DIGITS


def credit(batch: Any) -> Any:
    return replace(batch, advantage_M=torch.linspace(-1, 1, batch.num_tokens))


LOSS = policy_loss(policy_gradient())


@pytest.mark.parametrize("lora", [None, Lora(rank=2, alpha=4)], ids=["whole", "lora"])
def test_a_step_moves_the_rows_and_a_saved_model_goes_on(tmp_path: Any, lora: Lora | None) -> None:
    base = load_model(NANO)
    actions = expand(base, WANTED)
    automaton = automaton_of(actions)
    write_model(tmp_path, base, base.named_parameters())
    load_tokenizer(NANO).save_pretrained(tmp_path)
    begun = Model(path=str(tmp_path), lora=lora)
    learner = learner_of(load_model(begun), automaton)
    engine = engine_of(learner.model, learner.weights(), automaton)
    batch = credit(batch_of(sample(engine)))
    learner.update(batch, LOSS)
    rows = base_of(learner.model).action_rows
    assert not rows.detach().equal(base.action_rows.detach())
    engine.load(learner.weights(), 1)
    again = sample(engine)
    torch.testing.assert_close(
        learner.measure(batch_of(again))["logp"], batch_of(again).engine_logp_M, atol=1e-4, rtol=0
    )

    folder = tmp_path / "saved"
    folder.mkdir()
    learner.save(folder)
    saved = load_model(Model(path=str(folder)))
    assert sample(engine_of(saved, saved.state_dict(), automaton)) == [
        replace(t, turns=(replace(t.turns[0], completion=replace(t.turns[0].completion, version=0)),)) for t in again
    ]
    resumed = learner_of(load_model(begun), automaton)
    resumed.load(folder)
    one, other = (each.update(batch, LOSS) for each in (learner, resumed))
    assert one == other


def test_the_gradient_of_the_rows_is_autograd_s(nano: tuple[Any, Automaton]) -> None:
    model, automaton = nano
    trajectories = sample(engine_of(model, model.state_dict(), automaton), 9)
    learner = learner_of(copy.deepcopy(model), automaton)
    batch = batch_of(trajectories)
    for what in learner.share(batch):
        found = learner.score_columns(batch, pack(batch, what))
        (found["logp"].sum() + found["entropy"].sum()).backward()
    total = torch.zeros(())
    for turn in (t.turns[0] for t in trajectories):
        total = total + naive(model, automaton, turn)
    total.backward()
    for name in ("action_rows", "model.embed_tokens.weight", "model.layers.0.mlp.up_proj.weight"):
        ours, theirs = (x.get_parameter(name).grad for x in (learner.model, model))
        torch.testing.assert_close(ours, theirs, atol=1e-3, rtol=1e-3)


def naive(model: Any, automaton: Automaton, turn: Turn) -> torch.Tensor:
    """The sum of log-probs and entropies, through the model's own attention."""
    done = turn.completion
    hidden = model.model(torch.tensor([[*turn.prompt_ids, *done.token_ids]])).last_hidden_state[0]
    z = hidden[len(turn.prompt_ids) - 1 : -1] @ torch.cat((model.get_output_embeddings().weight, model.action_rows)).T
    free = [
        [i < model.config.vocab_size if state < 0 else automaton.states[state].allows(i) for i in range(z.shape[1])]
        for state in done.mask_ids or [-1] * len(done.token_ids)
    ]
    logp = z.masked_fill(~torch.tensor(free), -1e30).log_softmax(-1)
    return logp.gather(1, torch.tensor(done.chosen_ids or done.token_ids)[:, None]).sum() - (logp.exp() * logp).sum()


def test_a_learner_without_an_automaton_forbids_added_actions(nano: tuple[Any, Automaton]) -> None:
    model, automaton = nano
    trajectories = sample(engine_of(model, model.state_dict(), automaton))
    batch = batch_of([t for t in trajectories if not t.turns[0].completion.mask_ids])
    torch.testing.assert_close(learner_of(model, None).measure(batch)["logp"], batch.engine_logp_M, atol=1e-4, rtol=0)


def test_an_automaton_of_other_actions_is_refused(nano: tuple[Any, Automaton]) -> None:
    model, automaton = nano
    assert automaton.actions is not None
    fewer = Actions(first=automaton.actions.first, names=("a",), descriptions=((1,),))
    with raises_naming(ValueError, "added actions"):
        learner_of(model, Automaton(states=(State(),), actions=fewer))
    with raises_naming(ValueError, "3 action rows", "1 actions"):
        engine_of(model, model.state_dict(), Automaton(states=(State(),), actions=fewer))


def test_a_server_samples_added_actions_as_its_engine_would(nano: tuple[Any, Automaton]) -> None:
    model, automaton = nano
    weights = model.state_dict()
    server = RolloutServer(engine_of(model, weights, None), token="open sesame")
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    remote = RemoteEngine(link_all([server.address], "open sesame"))
    try:
        remote.use(automaton)
        remote.load(weights, 0)
        assert sample(remote) == sample(engine_of(model, weights, automaton))
    finally:
        remote.close()
        server.shutdown()
        server.server_close()
        thread.join()
