"""The comparison before step 1: it finds a wrong layout or head, and changes nothing of a run."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
from transformers import AutoConfig, AutoModelForCausalLM

from rlx.algo.parts import Optimizer
from rlx.learner import comparison
from rlx.learner.batch import collate
from rlx.learner.comparison import check_layout, layout_difference
from rlx.learner.torch import TorchLearner
from rlx.model.families import FAMILIES, Family
from rlx.model.problem import ModelError
from tests.errors import raises_naming
from tests.learner.test_families import groups_of
from tests.model.tiny import COMMON, tiny_model

BOUND = 1e-3


def learner_of(kind: str, **settings: Any) -> TorchLearner:
    return TorchLearner(tiny_model(kind), optimizer=Optimizer(), num_steps=1, temperature=0.7, **settings)


def test_listed_families_pass_the_comparison_and_keep_modes_and_random_numbers() -> None:
    batch = collate(groups_of())
    for kind in ("qwen2", "qwen3_5_text", "gemma2", "falcon_h1"):
        learner = learner_of(kind)
        before, drawn = learner.measure(batch)["logp"], torch.get_rng_state()
        assert layout_difference(learner, batch) < 1e-5
        assert torch.equal(torch.get_rng_state(), drawn)
        assert torch.equal(learner.measure(batch)["logp"], before)


def test_a_layout_or_a_head_that_is_wrong_for_a_model_is_refused_by_its_type(monkeypatch: pytest.MonkeyPatch) -> None:
    wrong: dict[str, Family] = {
        "qwen3_5_text": replace(FAMILIES["qwen3_5_text"], packing="forest"),
        "lfm2": replace(FAMILIES["lfm2"], packing="forest"),
        "granite": replace(FAMILIES["granite"], logit_scale=None),
        "gemma2": replace(FAMILIES["gemma2"], logit_cap=None),
    }
    monkeypatch.setattr("rlx.model.logits.FAMILIES", {**FAMILIES, **wrong})
    batch = collate(groups_of())
    for kind in wrong:
        with pytest.raises(ModelError) as caught:
            check_layout(learner_of(kind), batch, BOUND)
        assert repr(kind) in str(caught.value)
        assert f"{BOUND:g}" in str(caught.value)


def test_a_loss_that_is_not_a_number_is_refused_too() -> None:
    learner = learner_of("qwen2")
    with torch.no_grad():
        learner.model.get_output_embeddings().weight.fill_(torch.nan)
    with pytest.raises(ModelError):
        check_layout(learner, collate(groups_of()), BOUND)


@pytest.mark.parametrize(("kind", "words"), [("doge", "attention_mask"), ("ctrl", "activation checkpointing")])
def test_an_unlisted_model_that_the_learner_cannot_compute_is_one_line(kind: str, words: str) -> None:
    sizes = {**COMMON, "n_embd": 64, "n_layer": 2, "n_head": 4, "dff": 64, "n_positions": 512}
    model = AutoModelForCausalLM.from_config(AutoConfig.for_model(kind, **sizes)).eval()
    learner = TorchLearner(model, optimizer=Optimizer(), num_steps=1)
    with raises_naming(ModelError, repr(kind), words, "docs/models.md"):
        check_layout(learner, collate(groups_of()), BOUND)


def test_an_error_of_memory_is_not_that_of_a_model(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any) -> float:
        raise RuntimeError("CUDA error: out of memory")

    monkeypatch.setattr(comparison, "layout_difference", fail)
    model = AutoModelForCausalLM.from_config(AutoConfig.for_model("starcoder2", **COMMON)).eval()
    with pytest.raises(RuntimeError, match="memory"):
        check_layout(TorchLearner(model, optimizer=Optimizer(), num_steps=1), collate(groups_of()), BOUND)
