"""Tiny random models of every listed family, whose configurations show each mechanism of the family."""

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


def tiny_config(kind: str, **changes: Any) -> Any:
    return AutoConfig.for_model(kind, **{**TINY[kind], **changes})


def tiny_model(kind: str, seed: int = 0, **changes: Any) -> Any:
    """Build a random model with weights four times as large as usual, so that each mechanism shows."""
    with torch.random.fork_rng(devices=[]), torch.no_grad():
        torch.manual_seed(seed)
        model: Any = AutoModelForCausalLM.from_config(tiny_config(kind, **changes), attn_implementation="eager").eval()
        for name, parameter in model.named_parameters():
            if name.endswith("sinks"):
                parameter.normal_(0, 1.5)
            elif parameter.ndim > 1 and "norm" not in name:
                parameter.mul_(4)
    model.generation_config.eos_token_id = None
    return model
