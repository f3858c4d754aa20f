"""Ranks that are started, crash, fail, hang on and are asked to stop; without SLURM."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from rlx.cluster.rank import find_rank
from rlx.cluster.watch import find_folder
from rlx.hardware.command import rank_command
from rlx.runs.attempts import STOPPED, read_attempts, read_end
from rlx.runs.folder import LOGS

COUNT = "import os,sys; n = len(os.listdir('.')); open(f'try-{n}', 'w').close(); print('try', n);"


def watch(folder: Path, script: str, limit: int = 3) -> subprocess.Popen[str]:
    folders = folder.parent / "folders.json"
    folders.write_text(json.dumps([str(folder)]))
    (folder / "work").mkdir(parents=True)
    command = [sys.executable, "-m", "rlx.cluster.watch", "--limit", str(limit), str(folders)]
    outside = {name: value for name, value in os.environ.items() if not name.startswith("SLURM_") and name != "RANK"}
    return subprocess.Popen(
        [*command, *rank_command("{folder}", [sys.executable, "-u", "-c", script])],
        cwd=folder / "work",
        env={**outside, "PYTHONPATH": str(Path(__file__).resolve().parents[2])},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def kinds(folder: Path) -> list[str]:
    return [attempt.kind for attempt in read_attempts(folder)]


def test_what_a_rank_prints_is_shown_and_kept(tmp_path: Path) -> None:
    process = watch(tmp_path / "run", "import sys; print('out'); print('err', file=sys.stderr)")
    out, _ = process.communicate(timeout=600)
    assert process.returncode == 0
    assert sorted(out.split()) == ["err", "out"]
    assert (tmp_path / "run" / LOGS / "rank-0.log").read_text() == out
    assert kinds(tmp_path / "run") == ["finished"]


def test_a_crash_is_tried_again(tmp_path: Path) -> None:
    process = watch(tmp_path / "run", COUNT + "os.kill(os.getpid(), 9) if n < 2 else None")
    out, error = process.communicate(timeout=600)
    assert process.returncode == 0
    assert out == "try 0\ntry 1\ntry 2\n" == (tmp_path / "run" / LOGS / "rank-0.log").read_text()
    assert kinds(tmp_path / "run") == ["lost", "lost", "finished"]
    assert error.count("rank 0 ended by SIGKILL: lost at step 0") == 2


def test_crashes_in_vain_are_given_up(tmp_path: Path) -> None:
    process = watch(tmp_path / "run", COUNT + "os.kill(os.getpid(), 9)", limit=2)
    _, error = process.communicate(timeout=600)
    assert process.returncode == 137
    assert kinds(tmp_path / "run") == ["lost", "lost"]
    assert "given up: 2 attempts in a row came no further than step 0" in error


def test_a_failure_is_not_tried_again(tmp_path: Path) -> None:
    process = watch(tmp_path / "run", COUNT + "sys.exit(3)")
    process.communicate(timeout=600)
    assert process.returncode == 3
    assert kinds(tmp_path / "run") == ["failed"]
    assert read_end(tmp_path / "run").code == 3  # type: ignore[union-attr]


@pytest.mark.parametrize(("signum", "code"), [(signal.SIGTERM, STOPPED), (signal.SIGUSR2, 143), (signal.SIGINT, 130)])
def test_a_signal_reaches_the_rank_which_may_take_its_time(tmp_path: Path, signum: int, code: int) -> None:
    script = (
        "import signal, sys, time\n"
        "heard = []\n"
        "signal.signal(signal.SIGUSR2, lambda *_: heard.append(1))\n"
        "print('ready')\n"
        "while not heard: time.sleep(0.01)\n"
        "time.sleep(0.3); print('saved'); sys.exit(143)\n"
    )
    process = watch(tmp_path / "run", script)
    log = tmp_path / "run" / LOGS / "rank-0.log"
    while process.poll() is None and not (log.exists() and "ready" in log.read_text()):
        time.sleep(0.02)
    process.send_signal(signum)
    out, _ = process.communicate(timeout=600)
    assert out == "ready\nsaved\n"
    assert process.returncode == code
    assert kinds(tmp_path / "run") == ["stopped"]


def test_each_task_of_an_array_has_its_folder(tmp_path: Path) -> None:
    (tmp_path / "folders.json").write_text('["/a", "/b"]')
    assert find_folder(tmp_path / "folders.json", {"SLURM_ARRAY_TASK_ID": "1"}) == Path("/b")
    assert find_folder(tmp_path / "folders.json", {}) == Path("/a")


def test_a_rank_has_the_number_that_its_launcher_gave() -> None:
    assert find_rank({}) == 0
    assert find_rank({"SLURM_PROCID": "3"}) == 3
    assert find_rank({"SLURM_PROCID": "0", "RANK": "2"}) == 2
