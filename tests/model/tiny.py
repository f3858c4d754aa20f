"""Tiny random models of every listed family, whose configurations show each of the family's mechanisms."""

from __future__ import annotations

from typing import Any

import torch
from transformers import AutoConfig, AutoModelForCausalLM

COMMON: dict[str, Any] = {
    "vocab_size": 280,
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
LINEAR = {
    "linear_num_value_heads": 4,
    "linear_num_key_heads": 2,
    "linear_key_head_dim": 16,
    "linear_value_head_dim": 16,
    "linear_conv_kernel_dim": 4,
}
EXPERTS = {"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 32}
YARN = {"rope_type": "yarn", "factor": 4.0, "beta_fast": 32.0, "beta_slow": 1.0}
LLAMA3 = {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0}
WINDOW = 8
ALTERNATING = ["sliding_attention", "full_attention"] * 2

TINY: dict[str, dict[str, Any]] = {
    "cohere2": {**COMMON, "sliding_window": WINDOW, "logit_scale": 0.25},
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
    "gemma3_text": {**HEADS, "sliding_window": WINDOW, "query_pre_attn_scalar": 16, "layer_types": ALTERNATING},
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
    "llama": {**HEADS, "rope_parameters": {**LLAMA3, "rope_theta": 5e5, "original_max_position_embeddings": 64}},
    "ministral": {**HEADS, "sliding_window": WINDOW, "layer_types": ALTERNATING},
    "ministral3": {
        **HEADS,
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
    "olmo3": {**COMMON, "sliding_window": WINDOW, "layer_types": ALTERNATING},
    "phi3": {
        **COMMON,
        "sliding_window": None,
        "original_max_position_embeddings": 512,
        "rope_parameters": {
            "rope_type": "longrope",
            "rope_theta": 1e4,
            "short_factor": [1.0] * 8,
            "long_factor": [4.0] * 8,
            "original_max_position_embeddings": 512,
        },
    },
    "qwen2": COMMON,
    "qwen3": HEADS,
    "qwen3_5_moe_text": {
        **{key: value for key, value in HEADS.items() if key != "intermediate_size"},
        **LINEAR,
        **EXPERTS,
        "shared_expert_intermediate_size": 32,
    },
    "qwen3_5_text": {**HEADS, **LINEAR},
    "qwen3_moe": {**HEADS, **EXPERTS, "norm_topk_prob": True},
    "qwen3_next": {**HEADS, **LINEAR, **EXPERTS, "shared_expert_intermediate_size": 32},
    "smollm3": {**COMMON, "no_rope_layer_interval": 4},
}


def tiny_model(kind: str, factor: float = 4.0, seed: int = 7, **changes: Any) -> Any:
    """Build a random model in float32, with eager attention. Large weights make every mechanism show."""
    config = AutoConfig.for_model(kind, **{**TINY[kind], **changes})
    with torch.random.fork_rng(devices=[]), torch.no_grad():
        torch.manual_seed(seed)
        model: Any = AutoModelForCausalLM.from_config(config, attn_implementation="eager")
        for name, parameter in model.named_parameters():
            if parameter.ndim > 1:
                parameter.mul_(factor)
            elif name.endswith("sinks"):
                parameter.normal_(0.0, 1.5)
            else:
                parameter.add_(0.05 * torch.randn_like(parameter))
    model.generation_config.eos_token_id = None
    return model.eval()
