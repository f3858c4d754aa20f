"""What is found in the cache depends on code and on all of a model's files, is said, and is never needed."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from rlx.base.console import Screen
from rlx.model.load import SHIPPED, Model
from rlx.run.stored_evaluation import evaluation_key
from rlx.run.warm import model_digest, start_digest
from rlx.runs import provenance
from rlx.training import train

Build = Callable[..., Any]
WARM = (
    "steps=1",
    "warm_start=tool_sft",
    "warm_start.steps=1",
    "warm_start.extend=0",
    "warm_start.algo.num_prompts=1",
    "evaluate.num_tasks=1",
)
SHORT = ("sampling.max_new_tokens=8", "evaluate.max_new_tokens=8", "evaluate.num_samples=1")
GIVEN = ("steps", "warm_start", "evaluate", "sampling")


@pytest.fixture
def build(small_run: Build) -> Build:
    return lambda folder, *words: small_run(folder, *WARM, *SHORT, "evaluate.ks=[1]", *words, without=GIVEN)


def said(run: Any) -> str:
    """What the screen shows of a run, in one line."""
    text = StringIO()
    train(run, Screen(console=Console(file=text, width=400)))
    return " ".join(text.getvalue().split())


@pytest.mark.parametrize(
    "name", ["config.json", "generation_config.json", "tokenizer.json", "tokenizer_config.json", "model.safetensors"]
)
def test_every_file_of_a_model_folder_counts(tmp_path: Path, name: str) -> None:
    folder = Path(shutil.copytree(SHIPPED / "nano", tmp_path / "model"))
    (folder / "chat_template.jinja").write_text("{{ messages }}")
    model = Model(path=str(folder))
    before = model_digest(model)
    (folder / "learner.json").write_text("{}")
    assert model_digest(model) == before, "the learner's state is no part of it"
    (folder / "chat_template.jinja").write_text("{{ messages }}!")
    assert model_digest(model) != before
    (folder / "chat_template.jinja").write_text("{{ messages }}")
    assert model_digest(model) == before
    path = folder / name
    path.write_bytes(path.read_bytes()[:-1] + b" " if path.exists() else b"{}")
    assert model_digest(model) != before


def test_edited_code_is_another_warm_start_and_another_evaluation(
    build: Build, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = build(tmp_path)
    before = start_digest(run), evaluation_key(run, 0)
    monkeypatch.setattr(provenance, "package_digest", lambda: "edited")
    assert start_digest(run) != before[0]
    assert evaluation_key(run, 0) != before[1]


def test_what_is_found_in_the_cache_is_said_with_its_date_and_edited_code_misses_it(
    build: Build, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RLX_CACHE", str(tmp_path / "cache"))
    assert "found in the cache" not in said(build(tmp_path / "first"))
    told = said(build(tmp_path / "second"))
    assert f"warm start of 1 step, found in {tmp_path}/cache/warm/" in told
    assert ", made 20" in told
    assert "evaluation of the start: found in the cache, made 20" in told
    first, second = (json.loads((tmp_path / name / "summary.json").read_text()) for name in ("first", "second"))
    assert first["notes"] == []
    assert ["cost.tokens" in note for note in second["notes"]] == [True, True], (
        "of the start and of the untrained model"
    )
    assert second["cost"]["tokens"] < first["cost"]["tokens"]
    monkeypatch.setattr(provenance, "package_digest", lambda: "edited")
    assert "found in the cache" not in said(build(tmp_path / "third"))


def test_a_run_without_steps_plays_its_start_once(
    build: Build, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RLX_CACHE", str(tmp_path / "cache"))
    folder = tmp_path / "none"
    told = said(build(folder, "steps=0", "evaluate.untrained=false", "evaluate.num_tasks=3"))
    assert "evaluation of the start: found in the cache, made 20" in told
    ended, start = ((folder / f"trajectories/{noun}-2.jsonl").read_text() for noun in ("eval", "start"))
    assert ended == start
    assert len(ended.splitlines()) >= 3
    summary = json.loads((folder / "summary.json").read_text())
    assert summary["policy"] == "the start", "a run without steps stores no checkpoint"
    assert not (folder / "checkpoints").exists()
    found = summary["metrics"]
    assert found["eval/reward"] == found["start/reward"]
    assert found["gain/reward"]["value"] == 0


def test_a_cache_that_cannot_be_written_is_said_at_the_start_and_ends_no_run(
    build: Build, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RLX_CACHE", "/proc/rlx-cache")
    told = said(build(tmp_path / "run"))
    place = told.index("/proc/rlx-cache/warm cannot be written")
    assert "RLX_CACHE" in told[place:]
    assert place < told.index("warm start")
    assert json.loads((tmp_path / "run" / "summary.json").read_text())["status"] == "finished"
    (stage,) = (tmp_path / "run" / "warm").iterdir()
    assert (stage / "checkpoints" / "step-1").is_dir()
