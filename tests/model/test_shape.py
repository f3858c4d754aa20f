"""Sizes from a config.json alone, against published parameter counts and transformers' own models."""

from __future__ import annotations

import pytest

from rlx.model.shape import Shape, find_shape, read_shape
from rlx.settings.folders import read_option
from tests.loops import for_each

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


@for_each(
    "option, parameters",
    [
        ("smollm2_135m", 134_515_008),
        ("qwen2_5_0_5b", 494_032_768),
        ("qwen2_5_1_5b", 1_543_714_304),
        ("qwen2_5_7b", 7_615_616_512),
        ("qwen2_5_14b_instruct", 14_770_033_664),
        ("qwen2_5_32b", 32_763_876_352),
        ("qwen2_5_72b", 72_706_203_648),
        ("qwen3_0_6b", 596_049_920),
        ("qwen3_1_7b", 1_720_574_976),
        ("qwen3_4b_instruct", 4_022_468_096),
        ("qwen3_8b", 8_190_735_360),
    ],
)
def test_published_parameter_counts(option: str, parameters: int) -> None:
    shape = read_shape(read_option("model", option)["shape"])
    assert shape.num_parameters == parameters


def test_a_count_by_hand() -> None:
    shape = Shape(
        width=2, layers=1, heads=1, key_heads=1, head_size=2, feed_forward=3, vocabulary=5, tied=False, biased=True
    )
    assert shape.num_parameters == 2 * (5 * 2) + (4 * 4 + 3 * 2) + 3 * 6 + 2 * 2 + 2


@pytest.mark.parametrize("kind", ["qwen2", "qwen3", "llama"])
def test_the_count_is_that_of_transformers(kind: str) -> None:
    from transformers import AutoConfig, AutoModelForCausalLM

    sizes = {"hidden_size": 16, "intermediate_size": 24, "num_hidden_layers": 2, "vocab_size": 30}
    heads = {"num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 8, "tie_word_embeddings": False}
    model = AutoModelForCausalLM.from_config(AutoConfig.for_model(kind, **sizes, **heads))
    shape = read_shape({"model_type": kind, **sizes, **heads})
    assert shape.num_parameters == sum(weight.numel() for weight in model.parameters())


def test_a_model_that_is_not_here_is_sized_by_its_yaml() -> None:
    assert find_shape({"path": "nobody/nothing", "shape": QWEN_05B}) == read_shape(QWEN_05B)
    assert find_shape({"path": "nobody/nothing", "shape": None}) is None
