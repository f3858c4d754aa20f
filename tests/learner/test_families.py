"""Every listed model family: packed log-probs and gradients are those of transformers' own forward pass."""

from __future__ import annotations

import random
from functools import cache
from typing import Any

import pytest
import torch
from torch import Tensor
from transformers import AutoConfig, AutoModelForCausalLM

from rlx.learner import layout
from rlx.learner.attention import Rule, attention_over
from rlx.learner.batch import Batch, collate
from rlx.learner.packing import pack
from rlx.learner.scorer import Scorer
from rlx.learner.shares import shares, units
from rlx.model.families import FAMILIES
from rlx.types import Fork, Group, Task, Trajectory
from tests.learner.conftest import make_turn

COMMON: dict[str, Any] = {
    "vocab_size": 200,
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_hidden_layers": 4,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 512,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
}
HEADS = {**COMMON, "head_dim": 16}
DELTA = {
    "linear_num_value_heads": 4,
    "linear_num_key_heads": 2,
    "linear_key_head_dim": 16,
    "linear_value_head_dim": 16,
    "linear_conv_kernel_dim": 4,
}
EXPERTS = {"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 32}
YARN = {"rope_type": "yarn", "factor": 4.0, "beta_fast": 32.0, "beta_slow": 1.0}
LLAMA3 = {
    "rope_type": "llama3",
    "rope_theta": 5e5,
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 64,
}
MIXED = ["sliding_attention", "full_attention"] * 2
WINDOW = 8
SOME = {"use_sliding_window": True, "sliding_window": WINDOW, "max_window_layers": 2}
TINY: dict[str, dict[str, Any]] = {
    "cohere2": {**COMMON, "sliding_window": WINDOW, "layer_types": MIXED, "logit_scale": 0.25},
    "falcon_h1": {
        **COMMON,
        "mamba_d_ssm": 64,
        "mamba_n_heads": 4,
        "mamba_d_head": 16,
        "mamba_d_state": 16,
        "mamba_n_groups": 1,
        "mamba_chunk_size": 16,
        "lm_head_multiplier": 0.5,
        "embedding_multiplier": 2.0,
        "key_multiplier": 0.5,
    },
    "gemma2": {
        **HEADS,
        "attn_logit_softcapping": 2.0,
        "final_logit_softcapping": 3.0,
        "query_pre_attn_scalar": 16,
        "sliding_window": WINDOW,
    },
    "gemma3_text": {
        **HEADS,
        "sliding_window": WINDOW,
        "query_pre_attn_scalar": 16,
        "layer_types": MIXED,
        "final_logit_softcapping": 3.0,
    },
    "glm4": HEADS,
    "gpt_oss": {
        **HEADS,
        "num_local_experts": 4,
        "num_experts_per_tok": 2,
        "sliding_window": WINDOW,
        "rope_parameters": {
            **YARN,
            "rope_theta": 150000.0,
            "truncate": False,
            "original_max_position_embeddings": 128,
        },
    },
    "granite": {
        **COMMON,
        "logits_scaling": 4.0,
        "attention_multiplier": 0.2,
        "residual_multiplier": 0.5,
        "embedding_multiplier": 2.0,
    },
    "lfm2": {**COMMON, "layer_types": ["conv", "full_attention"] * 2, "block_auto_adjust_ff_dim": False},
    "llama": {**HEADS, "rope_parameters": LLAMA3, "attention_bias": True, "mlp_bias": True},
    "ministral": {**HEADS, "sliding_window": WINDOW, "layer_types": MIXED},
    "ministral3": {
        **HEADS,
        "sliding_window": WINDOW,
        "rope_parameters": {
            **YARN,
            "rope_theta": 1e6,
            "original_max_position_embeddings": 16,
            "max_position_embeddings": 512,
            "llama_4_scaling_beta": 0.1,
            "mscale": 1.0,
            "mscale_all_dim": 1.0,
        },
    },
    "mistral": {**HEADS, "sliding_window": WINDOW},
    "olmo2": COMMON,
    "olmo3": {**COMMON, "sliding_window": WINDOW},
    "phi3": {**COMMON, "sliding_window": WINDOW},
    "qwen2": {**COMMON, **SOME},
    "qwen3": {**HEADS, **SOME},
    "qwen3_5_moe_text": {
        **{key: value for key, value in HEADS.items() if key != "intermediate_size"},
        **DELTA,
        **EXPERTS,
        "shared_expert_intermediate_size": 32,
    },
    "qwen3_5_text": {**HEADS, **DELTA},
    "qwen3_moe": {**HEADS, **EXPERTS, **SOME, "norm_topk_prob": True},
    "qwen3_next": {**HEADS, **DELTA, **EXPERTS, "shared_expert_intermediate_size": 32},
    "smollm3": {**COMMON, **SOME, "no_rope_layer_interval": 4},
}
TASK = Task(id="t", prompt=(), data={})


@cache
def config_of(kind: str) -> Any:
    return AutoConfig.for_model(kind, **TINY[kind])


def build(kind: str) -> Any:
    """A random model with weights four times as large as usual, so that each mechanism shows."""
    torch.manual_seed(0)
    model = AutoModelForCausalLM.from_config(config_of(kind), attn_implementation="eager").eval()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if name.endswith("sinks"):
                parameter.normal_(0, 1.5)
            elif parameter.ndim > 1 and "norm" not in name:
                parameter.mul_(4)
    return model


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


@pytest.mark.parametrize("kind", FAMILIES)
def test_log_probs_and_gradients_of_a_family_are_those_of_transformers(kind: str) -> None:
    model, batch = build(kind), collate(groups_of())
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
