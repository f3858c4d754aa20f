"""Tiny configurations of every type that rlx can size. Each shows its mechanisms: windows, experts, states, sinks."""

from __future__ import annotations

from typing import Any

C: dict[str, Any] = {
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
D: dict[str, Any] = dict(C, head_dim=16)
LIN: dict[str, Any] = {
    "linear_num_value_heads": 4,
    "linear_num_key_heads": 2,
    "linear_key_head_dim": 16,
    "linear_value_head_dim": 16,
    "linear_conv_kernel_dim": 4,
}
MOE: dict[str, Any] = {"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 32}
MLA: dict[str, Any] = dict(
    C,
    num_key_value_heads=4,
    kv_lora_rank=16,
    qk_nope_head_dim=16,
    qk_rope_head_dim=8,
    v_head_dim=16,
    n_routed_experts=4,
    num_experts_per_tok=2,
    n_shared_experts=1,
    moe_intermediate_size=32,
    first_k_dense_replace=1,
)
YARN: dict[str, Any] = {"rope_type": "yarn", "factor": 4.0, "beta_fast": 32.0, "beta_slow": 1.0}
TINY: dict[str, dict[str, Any]] = {
    "llama": dict(
        D,
        rope_parameters={
            "rope_type": "llama3",
            "rope_theta": 5e5,
            "factor": 8.0,
            "low_freq_factor": 1.0,
            "high_freq_factor": 4.0,
            "original_max_position_embeddings": 64,
        },
    ),
    "mistral": dict(D, sliding_window=256),
    "ministral": dict(D, sliding_window=256),
    "qwen2": C,
    "qwen3": D,
    "olmo2": C,
    "glm4": D,
    "ministral3": dict(
        D,
        rope_parameters=dict(
            YARN,
            rope_theta=1e6,
            original_max_position_embeddings=16,
            max_position_embeddings=512,
            llama_4_scaling_beta=0.1,
            mscale=1.0,
            mscale_all_dim=1.0,
        ),
    ),
    "qwen3_moe": dict(D, **MOE, norm_topk_prob=True),
    "qwen3_next": dict(D, **LIN, **MOE, shared_expert_intermediate_size=32),
    "qwen3_5_text": dict(D, **LIN),
    "qwen3_5_moe_text": dict(
        {k: v for k, v in D.items() if k != "intermediate_size"}, **LIN, **MOE, shared_expert_intermediate_size=32
    ),
    "gemma2": dict(
        D, attn_logit_softcapping=2.0, final_logit_softcapping=3.0, query_pre_attn_scalar=16, sliding_window=256
    ),
    "gemma3_text": dict(
        D, sliding_window=256, query_pre_attn_scalar=16, layer_types=["sliding_attention", "full_attention"] * 2
    ),
    "smollm3": dict(C, no_rope_layer_interval=4),
    "olmo3": dict(C, sliding_window=256),
    "cohere2": dict(C, sliding_window=256, logit_scale=0.25),
    "granite": dict(C, logits_scaling=4.0, attention_multiplier=0.2, residual_multiplier=0.5, embedding_multiplier=2.0),
    "gpt_oss": dict(
        D,
        num_local_experts=4,
        num_experts_per_tok=2,
        sliding_window=256,
        rope_parameters=dict(YARN, rope_theta=150000.0, truncate=False, original_max_position_embeddings=128),
    ),
    "falcon_h1": dict(
        C,
        mamba_d_ssm=64,
        mamba_n_heads=4,
        mamba_d_head=16,
        mamba_d_state=16,
        mamba_n_groups=1,
        mamba_chunk_size=16,
        lm_head_multiplier=0.5,
        embedding_multiplier=2.0,
        key_multiplier=0.5,
    ),
    "lfm2": dict(C, layer_types=["conv", "full_attention"] * 2, block_auto_adjust_ff_dim=False),
    "phi3": dict(
        C,
        sliding_window=None,
        original_max_position_embeddings=32,
        rope_parameters={
            "rope_type": "longrope",
            "rope_theta": 1e4,
            "short_factor": [1.0] * 8,
            "long_factor": [4.0] * 8,
            "original_max_position_embeddings": 32,
        },
    ),
    "deepseek_v2": dict(MLA, q_lora_rank=None),
    "deepseek_v3": dict(MLA, q_lora_rank=16, n_group=2, topk_group=1),
}
