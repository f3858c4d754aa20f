"""The vLLM engine without vLLM: a lender of engines that only remembers what was asked of it."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from rlx.rollout.choice import Chooser, force
from rlx.rollout.play import Rollout
from rlx.rollout.row import Vocabulary, open_row
from rlx.rollout.vllm import engine as vllm_engine
from rlx.rollout.vllm import llm as vllm
from rlx.rollout.vllm.engine import VllmEngine
from rlx.rollout.vllm.start import model_folder
from rlx.types import Request, Sampling
from tests.errors import raises_naming


class Lent(vllm.Vllm):
    """What `lend` lends, over an LLM that writes down how it slept."""

    def __init__(self, settings: Any) -> None:
        self.settings, self.rows, self.chosen, self.asleep = settings, {}, {}, False
        self.chooser, self.told, self.added, self.num_added = Chooser(), [], [], 0
        told = self.told
        engine = SimpleNamespace(
            add_request=lambda *_: told.append("add"),
            abort_request=lambda *_: told.append("abort"),
            reset_prefix_cache=lambda: True,
        )
        self._llm = SimpleNamespace(
            apply_model=lambda _: told.append("load"),
            sleep=lambda level: told.append(f"sleep {level}"),
            wake_up=lambda: told.append("wake"),
            llm_engine=engine,
        )


@pytest.fixture
def engine(monkeypatch: pytest.MonkeyPatch, qwen2: Any, tokenizer: Any) -> VllmEngine:
    monkeypatch.setattr(vllm_engine, "check_vllm", lambda: None)
    monkeypatch.setattr(vllm_engine, "lend", Lent)
    monkeypatch.setitem(
        sys.modules, "vllm", SimpleNamespace(SamplingParams=lambda **given: given, sampling_params=SimpleNamespace())
    )
    kinds = SimpleNamespace(RequestOutputKind=SimpleNamespace(DELTA="delta"))
    monkeypatch.setitem(sys.modules, "vllm.sampling_params", kinds)
    return VllmEngine(
        config=qwen2.config, weights={}, tokenizer=tokenizer, eos_ids=(), device="cuda", sleeps=True, max_context=64
    )


def told(engine: VllmEngine) -> list[str]:
    """What the LLM was asked since the last time."""
    lent: Any = engine._vllm
    said = list(lent.told)
    lent.told.clear()
    return said


def request(session: int = 0) -> Request:
    return Request(session=session, stream=1, prompt_ids=(1, 2), sampling=Sampling(max_context=64))


def test_weights_that_will_be_loaded_again_are_not_kept(engine: VllmEngine) -> None:
    assert told(engine) == ["load"]
    engine.rest(keep=False)
    assert told(engine) == ["sleep 2"]
    assert engine.version == -1
    with raises_naming(ValueError, "weights up"):
        engine.add(request())
    engine.load({}, 5)
    engine.add(request())
    engine.rest()
    assert told(engine) == ["wake", "load", "add"]
    engine.release(0)
    engine.rest()
    assert (told(engine), engine.version) == (["abort", "sleep 1"], 5)
    engine.add(request())
    assert told(engine) == ["wake", "add"]


def test_a_rank_without_episodes_sleeps_after_the_weights_arrived(engine: VllmEngine) -> None:
    told(engine)
    nobody: Any = None
    player = Rollout(
        env=nobody,
        speech=nobody,
        engine=engine,
        sampling=Sampling(),
        prepare=lambda: engine.load({}, 1),
        keep=False,
    )
    assert player.play([]) == []
    assert told(engine) == ["load", "sleep 2"]


def test_equal_configs_have_one_folder_and_others_another(cache_folder: Path) -> None:
    first, again = (model_folder({"a": 1, "b": [2]}) for _ in range(2))
    assert first == again != model_folder({"a": 1, "b": [3]})
    assert json.loads((first / "config.json").read_text()) == {"a": 1, "b": [2]}
    assert [path.name for path in first.iterdir()] == ["config.json"]


def test_a_tick_waits_for_the_device_once_whatever_the_rows_ask(monkeypatch: pytest.MonkeyPatch) -> None:
    hows = [Sampling(), Sampling(top_k=3), Sampling(top_p=0.5, temperature=0.6), Sampling(temperature=0)] * 8
    vocabulary = Vocabulary(num_ids=50, eos_ids=frozenset(), spelled=())
    rows = [
        open_row(place, Request(session=place, stream=place, prompt_ids=(1,), sampling=how), None, vocabulary)
        for place, how in enumerate(hows)
    ]
    chooser, waits = Chooser(), []
    logits = torch.randn(32, 50, generator=torch.Generator().manual_seed(0))
    chooser.choose(logits, rows)
    for name in ("tolist", "item", "__float__", "__bool__", "cpu", "nonzero"):
        kept = getattr(torch.Tensor, name)
        monkeypatch.setattr(torch.Tensor, name, lambda *of, kept=kept, name=name: waits.append(name) or kept(*of))
    ids, tokens, scores = chooser.choose(logits, rows)
    assert waits == ["tolist"]
    assert force(logits, ids).argmax(-1).tolist() == tokens
    alone = [Chooser().choose(logits[place : place + 1], [row]) for place, row in enumerate(rows)]
    assert [only[1][0] for only in alone] == tokens
    assert [only[2][0] for only in alone] == pytest.approx(scores)
