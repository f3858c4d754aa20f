"""W&B itself, offline, killed, resumed and uploaded to a local server: every step once, as metrics.jsonl has it."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from rlx.runs.dashboard import Dashboard
from rlx.runs.folder import MARK
from rlx.runs.track import Track, append_metrics, read_metrics, truncate_metrics
from rlx.runs.trackers import open_dashboards
from tests.record.wandb_server import WandbServer, serving

KEY = "local-" + "k" * 40
KILLED = """
import os, sys, time
from pathlib import Path
from tests.record.test_wandb_upload import open_run, take
dashboard = open_run(Path(sys.argv[1]))
take(dashboard, Path(sys.argv[1]), *range(1, 8), seconds=1.0)
while dashboard._tracker is None or dashboard._tracker.last < 7:
    time.sleep(0.01)
os._exit(9)
"""


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[WandbServer]:
    """A server that is W&B's for this process and those that it starts, which do not see the user's own login."""
    with serving(KEY) as found:
        monkeypatch.setenv("WANDB_BASE_URL", found.url)
        monkeypatch.setenv("WANDB_API_KEY", KEY)
        monkeypatch.setenv("HOME", str(tmp_path))
        monkeypatch.delenv("WANDB_MODE", raising=False)
        yield found


def open_run(folder: Path) -> Dashboard:
    track = Track(mode="offline", timeout=120)
    (dashboard,) = open_dashboards(track, folder, {"seed": 1}, notice=print, code=dict)
    return dashboard


def take(dashboard: Dashboard, folder: Path, *steps: int, seconds: float) -> None:
    """Take steps as a run does: metrics.jsonl first."""
    for step in steps:
        metrics = {"reward/mean": step / 10, "time/step": seconds, "loss/value": float("nan")}
        append_metrics(folder / "metrics.jsonl", step, metrics)
        dashboard.log(step, metrics)


def record(folder: Path, *steps: int, seconds: float = 1.0) -> None:
    """Take steps after a checkpoint, and end."""
    folder.mkdir(exist_ok=True)
    truncate_metrics(folder / "metrics.jsonl", steps[0] - 1)
    dashboard = open_run(folder)
    take(dashboard, folder, *steps, seconds=seconds)
    dashboard.finish({"eval/pass@1": (0.5, 0.4, 0.6)})
    assert not dashboard.failures


def sent(server: WandbServer) -> list[dict[str, Any]]:
    """Return the steps that the only run on the server has."""
    (history,) = server.history.values()
    lines = [line for line in history if "time/step" in line]
    assert [line["_step"] for line in lines] == [line["step"] for line in lines]
    return [{name: value for name, value in line.items() if not name.startswith("_")} for line in lines]


def stored(folder: Path) -> list[dict[str, Any]]:
    lines = read_metrics(folder / "metrics.jsonl")
    return [{name: value for name, value in line.items() if value is not None} for line in lines]


def kill(folder: Path) -> None:
    """Take seven steps, and end without a word."""
    folder.mkdir()
    (folder / "config.yaml").write_text(f"{MARK}track:\n  project: mine\nseed: 1\n")
    alone = {name: value for name, value in os.environ.items() if name != "WANDB_SERVICE"}
    assert subprocess.run([sys.executable, "-c", KILLED, str(folder)], env=alone, timeout=600).returncode == 9


def upload_last(folder: Path) -> None:
    """Upload the last part of a run, which has all steps, as docs/trackers.md says."""
    part = sorted((folder / "wandb").glob("offline-run-*"))[-1]
    online = {name: value for name, value in os.environ.items() if name not in ("WANDB_MODE", "WANDB_SERVICE")}
    command = [sys.executable, "-m", "wandb", "sync", str(part)]
    done = subprocess.run(command, cwd=folder.parent, env=online, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr


@pytest.mark.slow
def test_a_killed_and_resumed_run_has_each_step_once(tmp_path: Path, server: WandbServer) -> None:
    folder = tmp_path / "run"
    kill(folder)
    record(folder, 6, 7, 8, seconds=2.0)
    upload_last(folder)
    assert sent(server) == stored(folder)
    assert [line["time/step"] for line in sent(server)] == [1.0] * 5 + [2.0] * 3


@pytest.mark.slow
def test_steps_that_were_uploaded_before_the_resume_are_replaced(tmp_path: Path, server: WandbServer) -> None:
    folder = tmp_path / "run"
    record(folder, 1, 2, 3)
    upload_last(folder)
    record(folder, 3, 4, seconds=2.0)
    upload_last(folder)
    assert sent(server) == stored(folder)
    assert [line["time/step"] for line in sent(server)] == [1.0, 1.0, 2.0, 2.0]
