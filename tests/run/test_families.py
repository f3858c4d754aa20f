"""Whole runs of families beyond Llama's form: the engine's log-probs are the learner's."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tokenizers import Tokenizer
from transformers import PreTrainedTokenizerFast

from rlx.base.console import Screen
from rlx.model.load import SHIPPED
from rlx.training import train
from tests.model.tiny import tiny_model


def write_model(kind: str, folder: Path) -> None:
    """Write a tiny model that speaks with nano's tokenizer."""
    texts = Tokenizer.from_file(str(SHIPPED / "nano" / "tokenizer.json"))
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=texts, eos_token="<|end|>", pad_token="<|end|>")
    model = tiny_model(kind, vocab_size=len(tokenizer), max_position_embeddings=2048)
    model.generation_config.eos_token_id = tokenizer.eos_token_id
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)


@pytest.mark.parametrize("kind", ["qwen3_5_text", "gpt_oss"])
@pytest.mark.parametrize("lora", [[], ["+model/lora=r8"]])
def test_two_steps_of_training_leave_a_gap_within_the_bound(
    kind: str, lora: list[str], small_run: Callable[..., Any], tmp_path: Path
) -> None:
    write_model(kind, tmp_path / "model")
    run = small_run(tmp_path / "run", "steps=2", *lora, f"model.path={tmp_path / 'model'}")
    train(run, Screen(silent=True))
    lines = [json.loads(line) for line in (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()]
    assert [line["step"] for line in lines] == [1, 2]
    assert all(0 < line["gap/engine"] < run.hardware.tolerance for line in lines)
    summary = json.loads((tmp_path / "run" / "summary.json").read_text())
    assert summary["status"] == "finished"
