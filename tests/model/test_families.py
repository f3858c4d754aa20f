"""The table of model families: which configs it refuses, and which it finds inside wrappers."""

from __future__ import annotations

from typing import Any

import pytest

from rlx.model.families import FAMILIES, UNLISTED, find_family, language_config
from rlx.model.problem import ModelError

LONGROPE = {"rope_type": "longrope", "original_max_position_embeddings": 4096}


def test_find_family_reads_the_language_model_inside_a_wrapper() -> None:
    config = {"model_type": "qwen3_5", "text_config": {"model_type": "qwen3_5_text"}, "vision_config": {}}
    assert find_family(config, 100) is FAMILIES["qwen3_5_text"]


def test_find_family_refuses_unlisted_types_and_values_that_make_results_wrong() -> None:
    refused: dict[str, dict[str, Any]] = {
        "bert": {"model_type": "bert"},
        "None": {},
        "use_bidirectional_attention=True": {"model_type": "gemma3_text", "use_bidirectional_attention": True},
        "final_logit_softcapping=30.0": {
            "model_type": "gemma3",
            "text_config": {"model_type": "gemma3_text", "final_logit_softcapping": 30.0},
        },
        "rope_type='longrope'": {"model_type": "phi3", "rope_parameters": LONGROPE},
        "type='dynamic'": {"model_type": "llama", "rope_scaling": {"type": "dynamic"}},
        "rope_type='dynamic'": {"model_type": "olmo3", "rope_parameters": {"full_attention": {"rope_type": "dynamic"}}},
    }
    for word, config in refused.items():
        with pytest.raises(ModelError) as caught:
            find_family(config, 8192)
        assert word in str(caught.value)
        assert "model.unlisted=true" in str(caught.value)
        kind = str(language_config(config).get("model_type"))
        assert find_family(config, 8192, unlisted=True) is FAMILIES.get(kind, UNLISTED)


def test_a_growing_rope_is_right_up_to_its_original_length() -> None:
    config = {"model_type": "phi3", "rope_parameters": LONGROPE}
    assert find_family(config, 4096) is FAMILIES["phi3"]
