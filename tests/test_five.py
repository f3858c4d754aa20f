"""Five families of environments in one run, chosen by what was solved: killed, and gone on with to the same bits."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from rlx.runs.track import is_clock

ROOT = Path(__file__).resolve().parents[1]
PARTS = ("game_guess_the_number", "logic", "math", "lend_search", "countdown")
STEPS = 6
WORDS = (
    "env=[game/guess_the_number,logic,math,lend_search,countdown]",
    "env.curriculum_floor=0.1",
    "env.curriculum_decay=0.5",
    "env.parts.game_guess_the_number.env.max_turns=3",
    "env.parts.lend_search.env.env.max_rounds=1",
    "env.parts.countdown.env.max_rounds=1",
    "protocol=tags",
    "algo=rebn",
    "algo.num_prompts=4",
    "algo.num_samples=2",
    "warm_start=none",
    "sampling.max_new_tokens=16",
    f"steps={STEPS}",
    "evaluate=quick",
    "evaluate.num_tasks=5",
    "evaluate.num_samples=1",
    "evaluate.ks=[1]",
    "evaluate.max_new_tokens=16",
    "evaluate.num_resamples=100",
    "track=disabled",
    "checkpoint.interval=2",
    "checkpoint.trajectories_interval=1",
)


def begin(folder: Path) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "rlx", "train", *WORDS, f"hydra.run.dir={folder}"]
    env = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, env=env)


def finish(folder: Path) -> None:
    process = begin(folder)
    said = process.communicate()[1].decode()
    assert process.returncode == 0, said


def kill_after(folder: Path, steps: int) -> None:
    """Killed as soon as so many steps are told of, in the middle of the next."""
    process, metrics = begin(folder), folder / "metrics.jsonl"
    while process.poll() is None and not (metrics.exists() and metrics.read_bytes().count(b"\n") >= steps):
        time.sleep(0.01)
    process.kill()
    process.communicate()
    assert process.returncode == -9
    assert metrics.read_bytes().count(b"\n") < STEPS


def told(folder: Path) -> list[dict[str, Any]]:
    lines = (folder / "metrics.jsonl").read_text().splitlines()
    return [{k: v for k, v in json.loads(line).items() if not is_clock(k)} for line in lines]


def played(folder: Path) -> list[bytes]:
    """What each step's trajectories are, to the byte."""
    return [path.read_bytes() for path in sorted((folder / "trajectories").glob("step-*.jsonl"))]


@pytest.mark.slow
def test_a_mixture_of_five_environments_that_was_killed_goes_on_to_the_same_bits(tmp_path: Path) -> None:
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    finish(whole)
    for steps in (1, 3):
        kill_after(killed, steps)
    finish(killed)
    assert told(killed) == told(whole)
    assert played(killed) == played(whole)
    assert len(told(whole)) == len(played(whole)) == STEPS
    assert any(line["gradient/norm"] > 0 for line in told(whole))
    assert len({line[f"{part}/known/share"] for line in told(whole) for part in PARTS}) > len(PARTS)
    for part in PARTS:
        assert any(f"{part}/success/mean" in line for line in told(whole))
        assert all(0 < line[f"{part}/known/share"] < 1 for line in told(whole))
    metrics = [json.loads((folder / "summary.json").read_text())["metrics"] for folder in (whole, killed)]
    assert metrics[0] == metrics[1]
    assert {f"eval/{part}/pass@1" for part in PARTS} <= set(metrics[0])
