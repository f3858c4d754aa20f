"""Weights leave rlx in the form of a checkpoint."""

from __future__ import annotations

from pathlib import Path

import torch
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM

from rlx.learner.state import write_model
from rlx.model.stored import joins_weights, stored_form
from tests.model.tiny import TINY, tiny_model


def test_weights_have_the_names_and_forms_of_a_checkpoint(tmp_path: Path) -> None:
    for kind in TINY:
        model = tiny_model(kind)
        model.save_pretrained(tmp_path / kind)
        saved = load_file(tmp_path / kind / "model.safetensors")
        stored = dict(stored_form(model.config.to_dict(), model.state_dict().items()))
        assert set(saved) <= set(stored), kind
        assert set(stored) - set(saved) <= {"lm_head.weight"}, kind
        assert all(torch.equal(saved[name], stored[name]) for name in saved), kind
    joined = {kind for kind in TINY if joins_weights(kind)}
    assert joined == {"qwen3_moe", "qwen3_next", "qwen3_5_moe_text"}


def test_a_written_mixture_of_experts_has_a_matrix_for_each_expert(tmp_path: Path) -> None:
    tiny_model("qwen3_moe").save_pretrained(tmp_path / "first")
    model = AutoModelForCausalLM.from_pretrained(tmp_path / "first")
    (tmp_path / "second").mkdir()
    write_model(tmp_path / "second", model, dict(model.named_parameters()).items())
    first, second = (load_file(tmp_path / name / "model.safetensors") for name in ("first", "second"))
    assert set(first) == set(second)
    assert all(torch.equal(first[name], second[name]) for name in first)
