"""Runs whose rollouts are played ahead, as processes: killed and resumed, and on several ranks."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from rlx.hardware.packages import lacks
from rlx.runs.track import is_clock

pytestmark = pytest.mark.cluster

LIMIT = 400
"""Seconds for the processes of one run."""
AHEAD = ("hardware.staleness=1", "hardware.importance_cap=2.0")


@pytest.fixture(scope="module")
def words(small_words: tuple[str, ...]) -> list[str]:
    return [*small_words, "algo.num_prompts=4", "algo.num_samples=4"]


def told(folder: Path) -> list[dict[str, Any]]:
    """metrics.jsonl without what the clock says."""
    lines = (folder / "metrics.jsonl").read_text().splitlines()
    return [{k: v for k, v in json.loads(line).items() if not is_clock(k)} for line in lines]


@contextmanager
def running(folder: Path, words: list[str], size: int = 1) -> Iterator[list[subprocess.Popen[str]]]:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    common = {**os.environ, "WORLD_SIZE": str(size), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    processes = [
        subprocess.Popen(
            [sys.executable, "-m", "rlx", "train", *words, f"hydra.run.dir={folder}"],
            env={**common, "RANK": str(rank), "LOCAL_RANK": str(rank)},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for rank in range(size)
    ]
    try:
        yield processes
    finally:
        for process in processes:
            process.kill()
            process.communicate()


def finish(folder: Path, words: list[str], size: int = 1) -> list[dict[str, Any]]:
    with running(folder, words, size) as processes:
        said = [process.communicate(timeout=LIMIT)[0] for process in processes]
        assert [process.returncode for process in processes] == [0] * size, "\n".join(said)
    return told(folder)


def servers_in(folder: Path) -> list[int]:
    """Processes that serve this run."""
    found = []
    for entry in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if f"run={folder}" in entry.read_bytes().decode(errors="replace"):
                found.append(int(entry.parent.name))
        except OSError:
            continue
    return found


def test_a_run_killed_beside_its_rollouts_goes_on_as_if_nothing_had_been(tmp_path: Path, words: list[str]) -> None:
    words = [*words, "hardware=cpu_async", "steps=5"]
    whole = finish(tmp_path / "whole", words)
    assert [line["version/lag"] for line in whole] == [0, 1, 1, 1, 1]
    folder = tmp_path / "killed"
    with running(folder, words) as (process,):
        metrics = folder / "metrics.jsonl"
        deadline = time.monotonic() + LIMIT
        while not (metrics.exists() and metrics.read_text().count("\n") >= 2):
            assert process.poll() is None
            assert time.monotonic() < deadline
            time.sleep(0.02)
        assert servers_in(folder)
        os.kill(process.pid, signal.SIGKILL)
    while servers_in(folder):
        assert time.monotonic() < deadline
        time.sleep(0.1)
    assert len(told(folder)) < 5
    assert finish(folder, words) == whole


@pytest.mark.skipif(lacks("deepspeed") is not None, reason=f"{lacks('deepspeed')}")
@pytest.mark.parametrize("num_servers", [1, 2])
def test_ranks_share_servers_and_play_ahead_together(tmp_path: Path, words: list[str], num_servers: int) -> None:
    """With one server rank 0 plays for both; with two each plays on its own. Weights are spread over both (ZeRO 3)."""
    words = [*words, *AHEAD, f"hardware.num_servers={num_servers}"]
    alone = finish(tmp_path / "alone", [*words, "hardware=cpu"])
    both = finish(tmp_path / "both", [*words, "hardware=cpux2", "hardware.zero_stage=3"], size=2)
    assert [line["version/lag"] for line in both] == [0, 1, 1]
    for mine, other in zip(both, alone, strict=True):
        assert mine == pytest.approx(other, rel=1e-3, abs=1e-4)
    logs = sorted(path.name for path in (tmp_path / "both" / "logs").glob("*.log"))
    assert logs == [f"server-{number}.log" for number in range(num_servers)]
