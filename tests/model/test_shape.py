"""Sizes from a config.json alone, against published parameter counts and transformers' own models."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from rlx.model.shape import Shape, find_shape, linear_maps, num_parameters, read_shape
from rlx.plan import estimate_memory, num_trained, size

CONF = Path(__file__).resolve().parents[2] / "conf" / "model"

QWEN_05B = {
    "model_type": "qwen2",
    "hidden_size": 896,
    "intermediate_size": 4864,
    "num_hidden_layers": 24,
    "num_attention_heads": 14,
    "num_key_value_heads": 2,
    "vocab_size": 151936,
    "tie_word_embeddings": True,
}


@pytest.mark.parametrize(
    ("option", "parameters"),
    [("qwen2_5_0_5b", 494_032_768), ("smollm2_135m", 134_515_008), ("qwen2_5_7b", 7_615_616_512)],
)
def test_published_parameter_counts(option: str, parameters: int) -> None:
    shape = read_shape(yaml.safe_load((CONF / f"{option}.yaml").read_text())["shape"])
    assert num_parameters(shape) == parameters


def test_a_count_by_hand() -> None:
    shape = Shape(
        width=2, layers=1, heads=1, key_heads=1, head_size=2, feed_forward=3, vocabulary=5, tied=False, biased=True
    )
    assert num_parameters(shape) == 2 * (5 * 2) + (4 * 4 + 3 * 2) + 3 * 6 + 2 * 2 + 2


@pytest.mark.parametrize("kind", ["qwen2", "llama"])
def test_the_count_is_that_of_transformers(kind: str) -> None:
    from transformers import AutoConfig, AutoModelForCausalLM

    sizes = {"hidden_size": 16, "intermediate_size": 24, "num_hidden_layers": 2, "vocab_size": 30}
    heads = {"num_attention_heads": 4, "num_key_value_heads": 2, "tie_word_embeddings": False}
    model = AutoModelForCausalLM.from_config(AutoConfig.for_model(kind, **sizes, **heads))
    shape = read_shape({"model_type": kind, **sizes, **heads})
    assert num_parameters(shape) == sum(weight.numel() for weight in model.parameters())


def test_adapters_are_rank_times_in_plus_out() -> None:
    shape = read_shape(QWEN_05B)
    lora = {"rank": 8, "targets": ["q_proj", "v_proj"]}
    assert linear_maps(shape)["v_proj"] == (896, 128)
    assert num_trained({"lora": lora}, shape) == 24 * 8 * (896 + 896 + 896 + 128)


def test_a_model_that_is_not_here_is_sized_by_its_yaml() -> None:
    assert find_shape({"path": "nobody/nothing", "shape": QWEN_05B}) == read_shape(QWEN_05B)
    assert find_shape({"path": "nobody/nothing", "shape": None}) is None


def test_memory_of_half_a_billion_parameters_learned_in_float32_and_sampled_in_bf16() -> None:
    tree = {
        "model": {"lora": None},
        "hardware": {"dtype": "bfloat16", "num_slots": 4, "micro_batch_tokens": 1024},
        "sampling": {"max_context": 1000},
        "algo": {"kl": 0.001},
    }
    memory = estimate_memory(tree, read_shape(QWEN_05B))
    assert memory.weights == memory.gradients == memory.reference_weights == 4 * 494_032_768
    assert memory.engine_weights == 2 * 494_032_768
    assert memory.optimizer == 8 * 494_032_768
    assert memory.kv_cache == 4 * 1000 * 24 * 2 * (2 * 64) * 2
    assert size(memory.kv_cache) == "49.2 MB"
