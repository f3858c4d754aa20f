"""Every method by trees and turns takes two steps on Countdown with the embedded model."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rlx.base.console import Screen
from rlx.runs.folder import METRICS
from rlx.runs.track import read_metrics
from rlx.training import train
from tests.test_repeat_adapters import sizes_of

METHODS = ["aepo", "arpo", "at2po", "branpo", "g2po", "gigpo", "tree_grpo", "treerl", "turn_grpo", "vineppo"]
SMALL = ("steps=2", "algo.num_prompts=2", "env.max_rounds=2", "sampling.max_new_tokens=8", "warm_start=none")
JUDGED = ("num_tasks=1", "num_samples=1", "ks=[1]", "max_new_tokens=4", "num_resamples=10", "max_rounds=[1]")


@pytest.mark.parametrize("algo", [*METHODS, "carl_outcome"])
def test_a_method_takes_two_steps(small_run: Callable[..., Any], tmp_path: Path, algo: str) -> None:
    words = (f"algo={algo}", *SMALL, *sizes_of(algo), *(f"evaluate.{word}" for word in JUDGED))
    run = small_run(
        tmp_path / "run", *words, without=("algo", "steps", "warm_start", "sampling", "env.", "evaluate", "checkpoint")
    )
    train(run, Screen(silent=True))
    rows = read_metrics(run.folder / METRICS)
    assert [row["step"] for row in rows] == [1, 2]
    assert all(row["update/tokens"] <= row["batch/tokens"] for row in rows)
