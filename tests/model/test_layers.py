"""Parameters, cache and state of every model type, against transformers on the meta device and published totals."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from rlx.model.families import FAMILIES
from rlx.model.layers import LAYERS, UnsizedError
from rlx.model.shape import find_shape, read_shape, why_unsized
from tests.loops import for_each
from tests.model.tiny import COMMON, TINY

LATENT: dict[str, Any] = {
    **COMMON,
    "num_key_value_heads": 4,
    "kv_lora_rank": 16,
    "qk_nope_head_dim": 16,
    "qk_rope_head_dim": 8,
    "v_head_dim": 16,
    "n_routed_experts": 4,
    "num_experts_per_tok": 2,
    "n_shared_experts": 1,
    "moe_intermediate_size": 32,
    "first_k_dense_replace": 1,
}
SIZED: dict[str, dict[str, Any]] = TINY | {
    "deepseek_v2": {**LATENT, "q_lora_rank": None},
    "deepseek_v3": {**LATENT, "q_lora_rank": 16, "n_group": 2, "topk_group": 1},
}
"""Every type that rlx can size; two of them are in no other table, as the learner does not compute them."""

DELTA = {"linear_num_key_heads": 16, "linear_key_head_dim": 128, "linear_value_head_dim": 128}
DELTA |= {"linear_conv_kernel_dim": 4, "vocab_size": 248320, "head_dim": 256}


def sizes(kind: str, width: int, inner: int | None, layers: int, heads: tuple[int, int, int], **keys: Any) -> Any:
    """Return the keys of a config.json."""
    names = ("num_attention_heads", "num_key_value_heads", "head_dim")
    tree = {"model_type": kind, "hidden_size": width, "num_hidden_layers": layers, **dict(zip(names, heads)), **keys}
    return tree if inner is None else {**tree, "intermediate_size": inner}


def qwen3_5(width: int, inner: int, layers: int, heads: tuple[int, int], values: int, tied: bool) -> Any:
    delta = {**DELTA, "linear_num_value_heads": values, "tie_word_embeddings": tied}
    return sizes("qwen3_5_text", width, inner, layers, (*heads, 256), **delta)


def experts(num: int, active: int, size: int, shared: int = 0) -> dict[str, int]:
    tree = {"num_experts": num, "num_experts_per_tok": active, "moe_intermediate_size": size}
    return {**tree, "shared_expert_intermediate_size": shared} if shared else tree


PUBLISHED = {
    "Qwen3.5-0.8B": (qwen3_5(1024, 3584, 24, (8, 2), 16, True), 752_393_024),
    "Qwen3.5-2B": (qwen3_5(2048, 6144, 24, (8, 2), 16, True), 1_881_825_088),
    "Qwen3.5-4B": (qwen3_5(2560, 9216, 32, (16, 4), 32, True), 4_205_751_296),
    "Qwen3.5-9B": (qwen3_5(4096, 12288, 32, (16, 4), 32, False), 8_953_803_264),
    "Qwen3.5-27B": (qwen3_5(5120, 17408, 64, (24, 4), 48, False), 26_895_998_464),
    "Qwen3.5-35B-A3B": (
        sizes(
            "qwen3_5_moe_text",
            2048,
            None,
            40,
            (16, 2, 256),
            **DELTA,
            linear_num_value_heads=32,
            **experts(256, 8, 512, 512),
        ),
        34_660_610_688,
    ),
    "Qwen3-Next-80B-A3B": (
        sizes(
            "qwen3_next",
            2048,
            5120,
            48,
            (16, 2, 256),
            **{**DELTA, "vocab_size": 151936},
            linear_num_value_heads=32,
            **experts(512, 10, 512, 512),
        ),
        79_674_391_296,
    ),
    "Qwen3-30B-A3B": (
        sizes("qwen3_moe", 2048, 6144, 48, (32, 4, 128), vocab_size=151936, **experts(128, 8, 768)),
        30_532_122_624,
    ),
    "Llama-3.2-1B": (
        sizes("llama", 2048, 8192, 16, (32, 8, 64), vocab_size=128256, tie_word_embeddings=True),
        1_235_814_400,
    ),
    "Llama-3.1-8B": (sizes("llama", 4096, 14336, 32, (32, 8, 128), vocab_size=128256), 8_030_261_248),
    "gemma-3-270m": (sizes("gemma3_text", 640, 2048, 18, (4, 1, 256), vocab_size=262144), 268_098_176),
    "gemma-3-1b": (sizes("gemma3_text", 1152, 6912, 26, (4, 1, 256), vocab_size=262144), 999_885_952),
    "gemma-3-12b": (
        {"model_type": "gemma3", "text_config": sizes("gemma3_text", 3840, 15360, 48, (16, 8, 256))},
        11_766_034_176,
    ),
    "OLMo-3-7B": (
        sizes("olmo3", 4096, 11008, 32, (32, 32, 128), vocab_size=100278, sliding_window=4096),
        7_298_011_136,
    ),
    "SmolLM3-3B": (sizes("smollm3", 2048, 11008, 36, (16, 4, 128), vocab_size=128256), 3_075_098_624),
    "gpt-oss-20b": (
        sizes(
            "gpt_oss",
            2880,
            2880,
            24,
            (64, 8, 64),
            vocab_size=201088,
            num_local_experts=32,
            num_experts_per_tok=4,
            sliding_window=128,
        ),
        20_914_757_184,
    ),
    "Mistral-7B-v0.3": (sizes("mistral", 4096, 14336, 32, (32, 8, 128), vocab_size=32768), 7_248_023_552),
    "GLM-4-9B": (
        sizes("glm4", 4096, 13696, 40, (32, 2, 128), vocab_size=151552, attention_bias=True),
        9_400_279_040,
    ),
    "Phi-4-mini": (
        sizes("phi3", 3072, 8192, 32, (24, 8, 128), vocab_size=200064, tie_word_embeddings=True),
        3_836_021_760,
    ),
}
"""Totals that were counted on models built from the published sizes."""


def test_every_family_that_rlx_computes_can_be_sized() -> None:
    assert set(FAMILIES) <= set(LAYERS)
    assert set(LAYERS) == set(SIZED), "each has a tiny model beside which it is counted"


def test_parameters_are_those_of_the_built_model() -> None:
    from transformers import AutoConfig, AutoModelForCausalLM

    for kind, keys in SIZED.items():
        config = AutoConfig.for_model(kind, **keys)
        with torch.device("meta"):
            model = AutoModelForCausalLM.from_config(config)
        shape = read_shape(config.to_dict())
        assert shape.num_parameters == sum(weight.numel() for weight in model.parameters()), kind
        layers = [[*layer.parameters()] for layer in model.model.layers]
        assert [layer.parameters for layer in shape.stack] == [sum(w.numel() for w in ws) for ws in layers], kind
        named = {name.rpartition(".")[2] for name, module in model.named_modules() if type(module) is torch.nn.Linear}
        maps = {name for layer in shape.stack for name in layer.maps}
        assert named - {"lm_head"} <= maps | {"gate"}, kind


def test_a_file_that_says_only_what_a_checkpoint_says_is_counted_alike() -> None:
    from transformers import AutoConfig

    for kind, keys in SIZED.items():
        whole = AutoConfig.for_model(kind, **keys).to_dict()
        told = {**whole, "layer_types": None} if kind != "lfm2" else whole
        if "layer_types" not in keys:
            assert read_shape(told).num_parameters == read_shape(whole).num_parameters, kind
            windows = [[layer.window for layer in read_shape(tree).stack] for tree in (told, whole)]
            assert windows[0] == windows[1] or kind in ("ministral",), kind


@for_each("name", PUBLISHED)
def test_published_totals(name: str) -> None:
    config, total = PUBLISHED[name]
    assert read_shape(config).num_parameters == total


def test_active_parameters_of_experts() -> None:
    """The active counts include the input's embedding, as their publishers count them."""
    for name, active in {"Qwen3-30B-A3B": 3.35e9, "Qwen3.5-35B-A3B": 3.45e9, "Qwen3-Next-80B-A3B": 3.87e9}.items():
        shape = read_shape(PUBLISHED[name][0])
        assert shape.num_active + shape.vocabulary * shape.width == pytest.approx(active, rel=0.005), name
    gpt = read_shape(PUBLISHED["gpt-oss-20b"][0])
    assert gpt.num_active == pytest.approx(3.61e9, rel=0.005)


def test_the_cache_of_a_hybrid_is_its_full_layers_and_a_state() -> None:
    expected = {
        "Qwen3.5-0.8B": (12_288, 20),
        "Qwen3.5-2B": (12_288, 20),
        "Qwen3.5-4B": (32_768, 52),
        "Qwen3.5-9B": (32_768, 52),
        "Qwen3.5-27B": (65_536, 155),
        "Qwen3.5-35B-A3B": (20_480, 65),
    }
    for name, (token, megabytes) in expected.items():
        shape = read_shape(PUBLISHED[name][0])
        assert 2 * shape.cached == token, name
        assert round(shape.state / 1e6) == megabytes, name
        assert shape.cache_bytes(1000, 2) == 1000 * token + shape.state, name


def test_the_state_is_that_of_transformers_own_cache() -> None:
    from transformers import AutoConfig, AutoModelForCausalLM

    for kind in ("qwen3_next", "qwen3_5_text", "lfm2", "falcon_h1"):
        config = AutoConfig.for_model(kind, **SIZED[kind])
        model = AutoModelForCausalLM.from_config(config).eval()
        with torch.no_grad():
            cache = model(torch.arange(3, 13)[None], use_cache=True).past_key_values
        held = [vars(layer) for layer in cache.layers]
        numbers = {
            name: sum(numel(value) for layer in held for value in values(layer.get(name)))
            for name in ("recurrent_states", "conv_states", "keys", "values")
        }
        shape = read_shape(config.to_dict())
        assert shape.state == 4 * numbers["recurrent_states"] + 2 * numbers["conv_states"], kind
        assert 10 * shape.cached == numbers["keys"] + numbers["values"], kind


def values(state: Any) -> list[Any]:
    """Return the tensors of a cache's field: one, several by number, or none."""
    return list(state.values()) if isinstance(state, dict) else [state]


def numel(value: Any) -> int:
    return value.numel() if isinstance(value, torch.Tensor) else 0


def test_a_window_bounds_the_cache() -> None:
    olmo = read_shape(PUBLISHED["OLMo-3-7B"][0])
    whole, of_token = olmo.cache_bytes(4096, 2), 2 * olmo.cached
    assert whole == 4096 * of_token
    assert olmo.cache_bytes(65_536, 2) == (8 * 65_536 + 24 * 4096) * of_token // 32


def test_no_head_of_a_split_engine_is_split() -> None:
    shape = read_shape(PUBLISHED["Qwen3-30B-A3B"][0])  # 4 key heads
    each = [shape.cache_bytes(1000, 2, split) for split in (1, 2, 4, 8)]
    assert [each[0] / bytes_ for bytes_ in each] == [1, 2, 4, 4]


def test_a_type_outside_the_table_is_not_sized(tmp_path: Any) -> None:
    config = sizes("dbrx", 64, 128, 2, (4, 4, 16), vocab_size=100)
    with pytest.raises(UnsizedError, match="dbrx"):
        read_shape(config)
    assert find_shape({"path": str(tmp_path), "shape": config}) is None
    assert "dbrx" in str(why_unsized({"path": str(tmp_path), "shape": config}))
    assert why_unsized({"path": str(tmp_path), "shape": None}) is None
    lacking = {key: value for key, value in config.items() if key != "vocab_size"}
    assert "vocab_size" in str(why_unsized({"path": str(tmp_path), "shape": lacking | {"model_type": "llama"}}))
