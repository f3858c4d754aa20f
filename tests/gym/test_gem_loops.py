"""Loops of GEM's training scripts run with only the import changed, and collect what they collect with GEM."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.loops import for_each

LOOPS = Path(__file__).with_name("gem_loops.py")
TYPES = ["list", "float64", "bool"]
OVER = [["prev_ep_step_counter", "step_counter"], True]
COLLECTED: dict[str, Any] = {
    **{loop: {"types": TYPES, "ends": True} for loop in ("train_oat", "train_oat_mt", "train_verl")},
    "train_oat_evaluation": [OVER] * 3,
    "train_oat_grpo": [[True, 1]] * 4,
    "train_rl2": [[num] * 4 + [[True] * num] for num in (1, 2, 3)],
    "train_openrlhf": [4, 4, True, 0.0],
    "train_tinker": [[-0.1, True, True]] * 3,
}


def collect(python: str, package: str, loop: str) -> Any:
    command = [python, "-W", "ignore", str(LOOPS), package, loop]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]
    collected = json.loads(done.stdout.splitlines()[-1])
    if isinstance(collected, dict):
        assert collected.pop("num_uses") > 0, "totals of finished episodes were read"
    return collected


@for_each("loop", COLLECTED)
def test_a_loop_of_gem_runs_on_rlx(loop: str) -> None:
    assert collect(sys.executable, "rlx.gym", loop) == COLLECTED[loop]


@for_each("loop", COLLECTED)
def test_the_same_loop_runs_on_gem(loop: str) -> None:
    python = os.environ.get("RLX_GEM_PYTHON")
    if not python:
        pytest.skip("gem-llm is missing: RLX_GEM_PYTHON names no interpreter that has it")
    assert collect(python, "gem", loop) == COLLECTED[loop]
