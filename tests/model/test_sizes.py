"""Options of models name listed families, and their shapes have the published numbers of parameters."""

from __future__ import annotations

import torch
from transformers import AutoConfig, AutoModelForCausalLM

from rlx.model.families import FAMILIES, find_family
from rlx.settings.folders import shipped_options

PUBLISHED = {
    "gemma3_1b_instruct": 999_885_952,
    "gemma3_270m_instruct": 268_098_176,
    "gemma3_4b_instruct": 3_880_263_168,
    "gpt_oss_20b": 20_914_757_184,
    "llama3_1_8b_instruct": 8_030_261_248,
    "llama3_2_1b_instruct": 1_235_814_400,
    "llama3_2_3b_instruct": 3_212_749_824,
    "olmo3_7b_instruct": 7_298_011_136,
    "qwen3_30b_a3b": 30_532_122_624,
    "qwen3_4b_instruct_2507": 4_022_468_096,
    "qwen3_5_0_8b": 752_393_024,
    "qwen3_5_27b": 26_895_998_464,
    "qwen3_5_2b": 1_881_825_088,
    "qwen3_5_35b_a3b": 34_660_610_688,
    "qwen3_5_4b": 4_205_751_296,
    "qwen3_5_9b": 8_953_803_264,
    "smollm3_3b": 3_075_098_624,
}
"""Counts of the published checkpoints' language models."""


def test_options_have_the_published_numbers_of_parameters() -> None:
    options = shipped_options("model")
    for name, published in PUBLISHED.items():
        with torch.device("meta"):
            model = AutoModelForCausalLM.from_config(AutoConfig.for_model(**options[name]["shape"]))
        assert sum(parameter.numel() for parameter in model.parameters()) == published, name


def test_options_are_of_listed_families() -> None:
    for name, option in shipped_options("model").items():
        if option["shape"] is not None:
            assert option["shape"]["model_type"] in FAMILIES, name
            find_family(option["shape"], 16384, name=name)
