"""Every listed model family: packed log-probs and gradients are those of transformers' own forward pass."""

from __future__ import annotations

import random
from typing import Any

import pytest
import torch
from torch import Tensor
from transformers import AutoConfig, AutoModelForCausalLM

from rlx.algo.parts import Critic, Optimizer
from rlx.learner.attention import attention_over
from rlx.learner.batch import Batch, collate
from rlx.learner.comparison import layout_difference
from rlx.learner.logprob import Head, log_probs
from rlx.learner.lora import Weights
from rlx.learner.packing import pack
from rlx.learner.scorer import Scorer
from rlx.learner.shares import shares, units
from rlx.learner.torch import TorchLearner
from rlx.model.adapters import wrap
from rlx.model.families import FAMILIES
from rlx.model.load import freeze_other_parts
from rlx.model.logits import LogitShape, logit_shape
from rlx.model.rows import Reader, rests_of
from rlx.types import Fork, Group, Task, Trajectory
from tests.learner.conftest import make_turn
from tests.loops import for_each
from tests.model.tiny import TINY, tiny_config, tiny_model

TASK = Task(id="t", prompt=(), data={})


def ids(draw: random.Random, num: int) -> list[int]:
    return [draw.randrange(3, 200) for _ in range(num)]


def groups_of(seed: int = 0) -> list[Group]:
    """Episodes of 40 tokens and of 13, and forks in mid-turn on both sides of a window's edge."""
    draw = random.Random(seed)
    prompt, sampled = ids(draw, 9), ids(draw, 31)
    first = make_turn(prompt, sampled)
    twin = make_turn(prompt, [*sampled[:6], *ids(draw, 12)])
    late = make_turn(prompt, [*sampled[:25], *ids(draw, 3)])
    seen = ids(draw, 4)
    long = [make_turn(ids(draw, 7), ids(draw, 9))]
    long.append(make_turn([*long[0].prompt_ids, *long[0].completion.token_ids, *seen], ids(draw, 20)))
    short = [
        Trajectory(task=TASK, sample=i, status="done", turns=(make_turn(ids(draw, 5), ids(draw, 8)),)) for i in (0, 1)
    ]
    trees = [
        Trajectory(task=TASK, sample=0, status="done", turns=(first,)),
        Trajectory(task=TASK, sample=1, status="done", turns=(twin,), fork=Fork(parent=0, turn=0, token=6)),
        Trajectory(task=TASK, sample=2, status="done", turns=(late,), fork=Fork(parent=0, turn=0, token=25)),
        Trajectory(task=TASK, sample=3, status="done", turns=tuple(long)),
    ]
    return [Group(task=TASK, trajectories=tuple(trees)), Group(task=TASK, trajectories=tuple(short))]


def rows_of(batch: Batch) -> list[tuple[list[int], Tensor]]:
    """Each trained segment's tokens after its context, and the trained tokens among M."""
    found = []
    for s in range(len(batch.parent_S)):
        first, last = batch.token_start_S[s : s + 2].tolist()
        if first < last:
            above, num, tokens = s, int(batch.start_S[s + 1] - batch.start_S[s]), []
            while above >= 0:
                start = int(batch.start_S[above])
                tokens = batch.token_ids_N[start : start + num].tolist() + tokens
                num, above = int(batch.joint_S[above]), int(batch.parent_S[above])
            found.append((tokens, torch.arange(first, last)))
    return found


def plain(model: Any, batch: Batch, temperature: float = 1.0) -> Tensor:
    """Log-probs by the model's own forward pass, one sequence at a time."""
    logp_M = torch.zeros(batch.num_tokens)
    for tokens, of_row in rows_of(batch):
        logits = model(input_ids=torch.tensor([tokens]), use_cache=False).logits[0].float() / temperature
        s = int((batch.token_start_S <= of_row[0]).sum()) - 1
        place = batch.position_M[of_row] - batch.start_S[s] + batch.context_S[s]
        target = torch.tensor(tokens)[place]
        logp_M = logp_M.index_put((of_row,), logits.log_softmax(-1)[place - 1].gather(1, target[:, None])[:, 0])
    return logp_M


def packed(scorer: Scorer, batch: Batch, budget: int = 10_000) -> Tensor:
    logp_M = torch.zeros(batch.num_tokens)
    for micro_batch in shares(batch, units(batch, "trajectory"), budget, 1, scorer.packing)[0]:
        laid = pack(batch, micro_batch)
        columns = scorer(laid, batch.mask_M[laid.token_m])
        logp_M = logp_M.index_put((laid.token_m,), columns["logp"])
    return logp_M


def gradients(model: Any, logp_M: Tensor) -> Tensor:
    weight_M = torch.linspace(-1, 1, len(logp_M))
    model.zero_grad()
    (logp_M * weight_M).sum().backward()
    return torch.cat([p.grad.flatten() for p in model.parameters() if p.grad is not None])


def test_every_family_has_a_tiny_configuration() -> None:
    assert sorted(TINY) == sorted(FAMILIES) == list(FAMILIES)


@for_each("kind", FAMILIES)
def test_log_probs_and_gradients_of_a_family_are_those_of_transformers(kind: str) -> None:
    model, batch = tiny_model(kind), collate(groups_of())
    theirs = plain(model, batch)
    their_gradient = gradients(model, theirs)
    scorer = Scorer(model)
    ours = packed(scorer, batch)
    our_gradient = gradients(model, ours)
    torch.testing.assert_close(ours, theirs, atol=1e-5, rtol=1e-5)
    assert (our_gradient - their_gradient).norm() < 1e-5 * their_gradient.norm()
    for budget in (1, 60):
        with torch.no_grad():
            torch.testing.assert_close(packed(scorer, batch, budget), theirs, atol=1e-5, rtol=1e-5)


@for_each("kind", FAMILIES)
def test_a_text_is_computed_alike_alone_and_beside_another_three_times_as_long(kind: str) -> None:
    draw = random.Random(1)
    short, long = make_turn(ids(draw, 6), ids(draw, 7)), make_turn(ids(draw, 9), ids(draw, 30))
    other = make_turn(ids(draw, 9), ids(draw, 30))
    scorer = Scorer(tiny_model(kind))

    def of_short(*turns: Any) -> Tensor:
        told = [Trajectory(task=TASK, sample=i, status="done", turns=(turn,)) for i, turn in enumerate(turns)]
        with torch.no_grad():
            return packed(scorer, collate([Group(task=TASK, trajectories=(one,)) for one in told]))[-7:]

    torch.testing.assert_close(of_short(long, short), of_short(short), atol=1e-5, rtol=1e-5)
    # a leak of recurrent state fades with distance, so the neighbour's tokens must not matter to the last bit
    assert torch.equal(of_short(long, short), of_short(other, short))


VISIBLE = {
    "attn_logit_softcapping": 1e6,
    "final_logit_softcapping": 1e6,
    "logit_scale": 1.0,
    "logits_scaling": 1.0,
    "lm_head_multiplier": 1.0,
    "attention_multiplier": 0.25,
    "sliding_window": 256,
}
"""Values with which a mechanism does nothing."""


def test_every_mechanism_shows_in_its_tiny_configuration() -> None:
    text = torch.tensor([ids(random.Random(0), 40)])
    checked = []
    for kind, keys in TINY.items():
        for key in VISIBLE.keys() & keys.keys():
            with torch.no_grad():
                model = tiny_model(kind)
                before = model(input_ids=text).logits.log_softmax(-1)
                torch.manual_seed(0)
                other = AutoModelForCausalLM.from_config(
                    tiny_config(kind, **{key: VISIBLE[key]}), attn_implementation="eager"
                ).eval()
                other.load_state_dict(model.state_dict())
                after = other(input_ids=text).logits.log_softmax(-1)
            assert (before - after).abs().max() > 0.01, (kind, key)
            checked.append(key)
    assert set(checked) == set(VISIBLE)
    layers = {kind: set(getattr(tiny_config(kind), "layer_types", None) or ()) for kind in TINY}
    for kind, family in FAMILIES.items():
        if family.windows == "layers":
            assert layers[kind] == {"sliding_attention", "full_attention"}, kind


@pytest.mark.parametrize("kind", ["gemma2", "granite", "qwen3_5_text"])
def test_temperature_and_added_actions_come_after_cap_and_scale(kind: str) -> None:
    model, batch = tiny_model(kind), collate(groups_of())
    with torch.no_grad():
        theirs = plain(model, batch, temperature=0.7)
        torch.testing.assert_close(packed(Scorer(model, temperature=0.7), batch), theirs, atol=1e-5, rtol=1e-5)
        head = model.get_output_embeddings().weight
        hidden = torch.randn(5, head.shape[1])
        shape = logit_shape(model.config.to_dict())
        logits = model.lm_head(hidden)
        expected = shape.apply(torch.cat((logits, hidden @ head[:3].T), -1))
        actual = Head(weight_VH=head, rows_AH=head[:3], shape=shape).logits(hidden)
        torch.testing.assert_close(actual, expected)
        torch.testing.assert_close(actual[:, :3], actual[:, -3:])
    assert not shape.is_plain or kind == "qwen3_5_text"


def test_gradients_go_through_cap_and_scale_to_hidden_states_head_and_added_rows() -> None:
    draw = torch.Generator().manual_seed(0)
    make = lambda *size: torch.randn(*size, generator=draw, dtype=torch.float64).requires_grad_()  # noqa: E731
    hidden, weight, rows = make(6, 5), make(9, 5), make(2, 5)
    target, states = torch.tensor([0, 3, 8, 9, 10, 2]), torch.full((6,), -1)

    def loss(*given: Tensor) -> Tensor:
        head = Head(weight_VH=given[1], rows_AH=given[2], temperature=0.7, shape=LogitShape(scale=0.5, cap=2.0))
        logp, entropy, share = log_probs(head, given[0], target, states)
        return logp.sum() + 0.3 * entropy.sum() + 0.2 * share.sum()

    def plain_loss(*given: Tensor) -> Tensor:
        z = 0.5 * 2.0 * torch.tanh(given[0] @ torch.cat((given[1], given[2])).T / 2.0) / 0.7
        logp = z.log_softmax(-1)
        entropy = -(logp.exp() * logp).sum()
        return logp.gather(1, target[:, None]).sum() + 0.3 * entropy + 0.2 * logp[:, :9].logsumexp(-1).sum()

    given = hidden, weight, rows
    for ours, theirs in zip(torch.autograd.grad(loss(*given), given), torch.autograd.grad(plain_loss(*given), given)):
        torch.testing.assert_close(ours, theirs, atol=1e-5, rtol=1e-5)


@for_each("kind", FAMILIES)
def test_adapters_of_a_family_learn_and_are_exported_under_the_models_own_names(kind: str) -> None:
    model, batch = tiny_model(kind), collate(groups_of())
    names = list(model.state_dict())
    wrapped = wrap(model, rank=2, alpha=8, dropout=0.0, targets=list(FAMILIES[kind].adapted), seed=0)
    with torch.no_grad():
        for name, parameter in wrapped.named_parameters():
            if ".lora_B." in name:
                parameter.normal_(0, 0.1)
    weights = Weights(wrapped)
    assert sorted(weights) == sorted(names)
    merged = tiny_model(kind)
    merged.load_state_dict({name: weights[name] for name in weights})
    scorer = Scorer(wrapped)
    logp_M = packed(scorer, batch)
    with torch.no_grad():
        torch.testing.assert_close(logp_M, plain(merged, batch), atol=2e-5, rtol=2e-5)
    logp_M.sum().backward()
    trained = {name for name, parameter in wrapped.named_parameters() if parameter.requires_grad}
    assert {name for name, p in wrapped.named_parameters() if p.grad is not None and p.grad.any()} == trained


def test_every_segment_stands_in_a_row_of_its_own_within_the_budget() -> None:
    batch = collate(groups_of())
    chosen = units(batch, "trajectory")
    for budget in (1, 60, 100, 10_000):
        micro_batches = shares(batch, chosen, budget, 1, "rows")[0]
        assert sorted(s for one in micro_batches for s in one.segments) == sorted(s for u in chosen for s in u.segments)
        for one in micro_batches:
            laid = pack(batch, one)
            assert laid.input_ids_BL.numel() == one.num_tokens
            assert laid.input_ids_BL.shape[0] == len(one.segments)
            assert one.num_tokens <= budget or len(one.segments) == 1
            tokens = laid.input_ids_BL.flatten()
            assert torch.equal(tokens[laid.after_m], batch.token_ids_N[batch.position_M[laid.token_m]])
            assert torch.equal(
                laid.position_ids_BL.flatten()[laid.after_m], laid.position_ids_BL.flatten()[laid.predict_m] + 1
            )


def test_attention_refuses_an_argument_that_it_does_not_know() -> None:
    model = tiny_model("qwen2")
    laid = pack(
        collate(groups_of()), shares(collate(groups_of()), units(collate(groups_of()), "trajectory"), 9999, 1)[0][0]
    )
    scorer = Scorer(model)
    base = model.get_decoder()
    given = {"input_ids": laid.input_ids_BL, "position_ids": laid.position_ids_BL, "use_cache": False}
    attention = attention_over(laid.layout)
    base(**given, attention=attention, position_bias=None)
    with pytest.raises(ValueError, match="position_bias"):
        base(**given, attention=attention, position_bias=torch.zeros(1))
    assert scorer.packing == "forest"


VISION = {
    "hidden_size": 32,
    "intermediate_size": 32,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "image_size": 28,
    "patch_size": 14,
}


def wrapped_gemma() -> Any:
    torch.manual_seed(0)
    config = AutoConfig.for_model(
        "gemma3",
        text_config={**TINY["gemma3_text"], "final_logit_softcapping": None},
        vision_config=VISION,
        mm_tokens_per_image=4,
    )
    model = AutoModelForCausalLM.from_config(config, attn_implementation="eager").eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(4 if parameter.ndim > 1 else 1)
    return model


def test_a_wrapper_is_computed_as_its_language_model_with_a_critic_and_frozen_towers() -> None:
    model, batch = wrapped_gemma(), collate(groups_of())
    freeze_other_parts(model)
    with torch.no_grad():
        theirs = plain(model, batch)
    learner = TorchLearner(model, optimizer=Optimizer(), num_steps=1, critic=Critic(lr=1e-3))
    assert layout_difference(learner, batch) < 1e-5
    logp_M = packed(learner.scorer, batch)
    torch.testing.assert_close(logp_M, theirs, atol=1e-5, rtol=1e-5)
    logp_M.sum().backward()
    trained = dict(learner.scorer.trained())
    assert {name for name, p in trained.items() if p.grad is None} == {"heads.value.weight", "heads.value.bias"}
    assert not any("vision" in name for name in trained)
    assert set(learner.weights()) == set(model.state_dict())


def test_descriptions_are_read_by_models_with_state_caps_and_scales() -> None:
    draw = random.Random(2)
    prompts, description = [ids(draw, 5), ids(draw, 9)], (11, 12, 13)
    for kind in ("qwen3_5_text", "lfm2", "gemma2", "granite"):
        model = tiny_model(kind)
        reader = Reader(model)
        with torch.no_grad():
            reader.begin(prompts)
            for _ in range(2):
                rests = rests_of(reader, {"a": description})["a"]
                for row, prompt in enumerate(prompts):
                    logits = model(input_ids=torch.tensor([[*prompt, *description]])).logits[0].double()
                    logp = logits.log_softmax(-1)[len(prompt) : -1]
                    expected = sum(float(logp[i, token]) for i, token in enumerate(description[1:]))
                    assert float(rests[row]) == pytest.approx(expected, abs=1e-3), kind


def test_logits_are_inverted_up_to_the_cap() -> None:
    logits = torch.linspace(-5, 5, 11, dtype=torch.float64)
    for shape in (LogitShape(), LogitShape(scale=0.25), LogitShape(scale=0.5, cap=3.0)):
        torch.testing.assert_close(shape.invert(shape.apply(logits)), logits)
    assert LogitShape(cap=3.0).invert(torch.tensor(4.0)).isfinite()
