"""A run of EARL on the embedded model: its twins replay, and where it was killed it goes on to the same bits."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rlx import cli
from rlx.base.console import Screen
from rlx.runs.store import load
from rlx.runs.track import is_clock
from rlx.training import train
from rlx.types import Trajectory

ROOT = Path(__file__).resolve().parents[1]
STEPS = 3
WORDS = (
    "env=sorting/sort3",
    "algo=earl",
    "algo.num_prompts=2",
    "algo.num_samples=3",
    "env.sizes=[2,3]",
    "env.shares=[1,1]",
    f"steps={STEPS}",
    "sampling.max_new_tokens=8",
    "evaluate=quick",
    "evaluate.num_tasks=2",
    "evaluate.num_samples=1",
    "evaluate.ks=[1]",
    "evaluate.max_new_tokens=8",
    "evaluate.num_resamples=100",
    "track=disabled",
    "checkpoint.interval=1",
    "checkpoint.keep=5",
    "checkpoint.trajectories_interval=1",
)
Build = Callable[..., Any]


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("earl") / "whole"
    go(folder)
    return folder


def go(folder: Path) -> None:
    from rlx.settings.compose import build_run, compose

    train(build_run(compose(list(WORDS)), folder), Screen(silent=True))


def told(folder: Path) -> list[dict[str, Any]]:
    lines = (folder / "metrics.jsonl").read_text().splitlines()
    return [{k: v for k, v in json.loads(line).items() if not is_clock(k)} for line in lines]


def files(folder: Path) -> list[Path]:
    return sorted((folder / "trajectories").glob("step-*.jsonl"))


def played(folder: Path) -> list[Trajectory]:
    return [one for file in files(folder) for group in load(file) for one in group.trajectories]


def memory(folder: Path) -> str:
    return (folder / "checkpoints" / f"step-{STEPS}" / "run.json").read_text()


def test_twins_are_played_learned_from_and_remembered(whole: Path) -> None:
    twins = [one for one in played(whole) if one.fork is not None]
    assert len(twins) > STEPS
    assert all(one.status != "error" for one in twins)
    assert {one.fork.learned for one in twins if one.fork} == {True}
    assert {one.turns[one.fork.turn].completion.chosen_ids[one.fork.token] for one in twins if one.fork} >= {1536}
    assert len(told(whole)) == STEPS
    assert "gains" in memory(whole)


def test_a_stored_twin_replays(whole: Path, capsys: pytest.CaptureFixture[str]) -> None:
    cli.replay(whole)
    assert capsys.readouterr().out.rstrip().endswith("all as stored")


def test_a_run_goes_on_from_a_checkpoint_to_the_same_bits(whole: Path, tmp_path: Path) -> None:
    again = Path(shutil.copytree(whole, tmp_path / "again"))
    for step in range(2, STEPS + 1):
        shutil.rmtree(again / "checkpoints" / f"step-{step}")
    (again / "checkpoints" / "index.json").write_text("[1]")
    (again / "summary.json").unlink()
    for file in files(again)[1:]:
        file.unlink()
    go(again)
    same_bits(again, whole)


def same_bits(one: Path, other: Path) -> None:
    assert told(one) == told(other)
    assert [file.read_bytes() for file in files(one)] == [file.read_bytes() for file in files(other)]
    for name in ("model.safetensors", "actions.safetensors"):
        weights = [(folder / "checkpoints" / f"step-{STEPS}" / name).read_bytes() for folder in (one, other)]
        assert weights[0] == weights[1]


def begin(folder: Path) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "rlx", "train", *WORDS, f"hydra.run.dir={folder}"]
    env = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, env=env)


@pytest.mark.slow
def test_a_run_that_was_killed_goes_on_to_the_same_bits(tmp_path: Path) -> None:
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    process, metrics = begin(killed), killed / "metrics.jsonl"
    while process.poll() is None and not (metrics.exists() and metrics.read_bytes().count(b"\n") >= 1):
        time.sleep(0.01)
    process.kill()
    process.communicate()
    assert process.returncode == -9
    assert metrics.read_bytes().count(b"\n") < STEPS
    for folder in (killed, whole):
        process = begin(folder)
        said = process.communicate()[1].decode()
        assert process.returncode == 0, said
    same_bits(killed, whole)
