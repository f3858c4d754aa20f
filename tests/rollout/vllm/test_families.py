"""The vLLM engine's settings, weights and rows of added actions for each model family, without vLLM."""

from __future__ import annotations

import sys
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from rlx.model.expand import ROWS
from rlx.model.families import FAMILIES
from rlx.model.logits import logit_shape
from rlx.rollout.vllm.llm import Vllm
from rlx.rollout.vllm.settings import Settings, config_of
from rlx.rollout.vllm.start import start_vllm
from rlx.rollout.vllm.weights import take_weights, widen
from tests.model.tiny import TINY, tiny_model


def settings_of(kind: str) -> Settings:
    return Settings(
        config=config_of(tiny_model(kind).config),
        num_slots=2,
        device="cuda",
        dtype=torch.float32,
        max_context=64,
        memory=0.4,
        tensor_parallel=1,
        sleeps=False,
    )


class Finalized(SimpleNamespace):
    """An object that a finalizer may refer to."""


@pytest.fixture
def starts(monkeypatch: pytest.MonkeyPatch, cache_folder: Any) -> list[dict[str, Any]]:
    """Return the arguments of every vLLM that is started."""
    arguments: list[dict[str, Any]] = []

    def start(**options: Any) -> Any:
        arguments.append(options)
        executor = SimpleNamespace(shutdown=lambda: None)
        core = Finalized(
            _finalizer=SimpleNamespace(detach=lambda: None), engine_core=SimpleNamespace(model_executor=executor)
        )
        return SimpleNamespace(llm_engine=SimpleNamespace(engine_core=core))

    monkeypatch.setitem(sys.modules, "vllm", SimpleNamespace(LLM=start))
    return arguments


def test_prefixes_are_cached_for_attention_alone(starts: list[dict[str, Any]]) -> None:
    for kind in TINY:
        start_vllm(settings_of(kind), None)
        assert starts[-1]["enable_prefix_caching"] is not FAMILIES[kind].recurrent, kind
    other = replace(settings_of("llama"), config={"model_type": "unheard_of", "vocab_size": 9})
    start_vllm(other, None)
    assert starts[-1]["enable_prefix_caching"] is False


def test_the_class_is_that_of_the_language_model() -> None:
    config = tiny_model("qwen3_5_text").config
    config.architectures = ["Qwen3_5ForConditionalGeneration"]
    assert config_of(config)["architectures"] == ["Qwen3_5ForCausalLM"]


def test_logits_of_added_actions_change_as_those_of_the_vocabulary() -> None:
    for kind in TINY:
        model = tiny_model(kind)
        head, hidden_BH = model.get_output_embeddings(), torch.randn(3, 64, generator=torch.Generator().manual_seed(1))
        shape, added = logit_shape(model.config.to_dict()), []
        served = SimpleNamespace(compute_logits=lambda h, head=head, shape=shape: shape.apply(head(h)))
        widen(served, added, shape)
        plain_BV = served.compute_logits(hidden_BH)
        added.append(head.weight[5:7].detach())
        torch.testing.assert_close(served.compute_logits(hidden_BH), torch.cat((plain_BV, plain_BV[:, 5:7]), -1))
    assert {kind for kind in TINY if not logit_shape(tiny_model(kind).config.to_dict()).is_plain} == {
        "cohere2",
        "falcon_h1",
        "gemma2",
        "gemma3_text",
        "granite",
    }


def test_vllm_is_given_a_matrix_for_each_expert_and_no_rows_of_actions() -> None:
    model, calls = tiny_model("qwen3_moe"), []
    lent: Any = Vllm.__new__(Vllm)
    lent.settings, lent.rows, lent.added, lent.num_added, lent.asleep = settings_of("qwen3_moe"), {}, [], 0, False
    engine = SimpleNamespace(reset_prefix_cache=lambda: True)
    lent._llm = SimpleNamespace(apply_model=calls.append, llm_engine=engine)
    lent.load({**model.state_dict(), ROWS: torch.zeros(1, 64)})
    names: list[str] = []
    served = SimpleNamespace(load_weights=lambda named: [names.append(n) for n, _ in named], named_parameters=list)
    calls[0](served)
    assert {"model.layers.0.mlp.experts.3.up_proj.weight", "model.norm.weight"} <= set(names)
    assert not {ROWS, "model.layers.0.mlp.experts.gate_up_proj"} & set(names)


def test_a_parameter_without_weights_is_named() -> None:
    model = torch.nn.Linear(2, 2)
    model.load_weights = lambda named: [name for name, _ in named]
    take_weights(model, [("weight", model.weight), ("bias", model.bias)])
    with pytest.raises(RuntimeError, match="bias"):
        take_weights(model, [("weight", model.weight)])
