"""`rlx status`: what is told of runs in every state, of a torn folder and of hostile text."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

import rlx
import rlx.runs.state
from rlx.commands.status import status_table, status_values
from rlx.commands.watch import Watcher
from rlx.runs.attempts import Attempt, record_attempt, record_job
from rlx.runs.find import runs_below
from rlx.runs.folder import MARK
from rlx.runs.run import read_run
from rlx.runs.slurm import Record
from rlx.runs.state import ENDED
from rlx.runs.summary import Ending, Summary, write_summary


def make_run(folder: Path, *, done: int = 3, steps: int = 10, status: Ending | None = None) -> Path:
    (folder / "checkpoints").mkdir(parents=True)
    (folder / "config.yaml").write_text(f"{MARK}steps: {steps}\n")
    lines = [json.dumps({"step": step, "time/step": 2.0}) for step in range(1, done + 1)]
    (folder / "metrics.jsonl").write_text("".join(f"{line}\n" for line in lines))
    if status is not None:
        write_summary(folder / "summary.json", Summary(status=status, seed=0))
    return folder


def hold(folder: Path, *, host: str, pid: int, job: str = "") -> None:
    (folder / ".lock").write_text(json.dumps({"host": host, "pid": pid, "job": job}))


@pytest.mark.parametrize("status", ["finished", "failed", "interrupted"])
def test_a_run_that_has_ended_is_as_its_summary_says(tmp_path: Path, status: Ending) -> None:
    found = read_run(make_run(tmp_path / "run", status=status))
    assert (found.state, found.step, found.steps, found.left) == (ENDED[status], 3, 10, None)


@pytest.mark.parametrize("configured", [4, 20])
def test_a_finished_run_has_the_steps_of_its_summary_whatever_was_asked_afterwards(
    tmp_path: Path, configured: int
) -> None:
    run = make_run(tmp_path / "run", done=12, steps=configured)
    write_summary(run / "summary.json", Summary(status="finished", seed=0, steps=12))
    assert (read_run(run).step, read_run(run).steps) == (12, 12)
    assert status_values(tmp_path)[0]["steps"] == 12


def test_a_finished_run_that_goes_on_has_the_steps_of_its_configuration(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", done=12, steps=20)
    write_summary(run / "summary.json", Summary(status="finished", seed=0, steps=12))
    hold(run, host=socket.gethostname(), pid=os.getpid())
    assert (read_run(run).steps, read_run(run).left) == (20, 16.0)


def test_steps_before_those_that_are_done_are_no_end(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", done=12, steps=4, status="interrupted")
    assert (read_run(run).step, read_run(run).steps) == (12, None)


def test_an_evaluation_has_no_steps(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", status="finished", steps=0)
    (run / "metrics.jsonl").unlink()
    assert read_run(run).step is None
    assert status_table(tmp_path).rows[0][:3] == ("run", "finished", "")


def test_a_run_without_a_summary_whose_process_is_gone_was_killed(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run")
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    hold(run, host=socket.gethostname(), pid=process.pid)
    assert read_run(run).state == "killed"


def test_a_run_at_work_has_a_rate_and_a_time_left(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", status="interrupted")
    hold(run, host=socket.gethostname(), pid=os.getpid())
    found = read_run(run)
    assert (found.state, found.where, found.seconds, found.left) == ("running", socket.gethostname(), 2.0, 14.0)


def test_slurm_tells_of_its_jobs(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run")
    record_job(run, "7_1", "seed=1", 10)
    hold(run, host="elsewhere", pid=1, job="9")
    told = {
        state: read_run(run, Record(state=state, reason="Priority", nodes="n[1-2]"))
        for state in ("PENDING", "RUNNING", "COMPLETING", "CANCELLED")
    }
    assert {state: found.state for state, found in told.items()} == {
        "PENDING": "queued",
        "RUNNING": "running",
        "COMPLETING": "running",
        "CANCELLED": "killed",
    }
    assert told["PENDING"].where == "Priority"
    assert told["PENDING"].job == "7_1"
    assert read_run(run).state == "killed", "a holder elsewhere whose job is unknown is believed dead"


def test_a_job_that_failed_before_it_could_say_so_has_failed(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run")
    record_job(run, "7", "seed=1", 10)
    record_attempt(run, Attempt(kind="failed", job="7", before=0, after=0))
    assert read_run(run, Record(state="FAILED")).state == "failed"


def test_a_run_that_has_not_begun_is_listed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    record_job(tmp_path / "sweep" / "0", "7_0", "seed=1", 4)
    monkeypatch.setattr(rlx.runs.state, "ask", lambda jobs: {"7_0": Record(state="PENDING", reason="Resources")})
    assert status_table(tmp_path).rows == (("sweep/0", "queued", "0/4", "7_0", "Resources"),)
    make_run(tmp_path / "other", status="finished")
    assert status_table(tmp_path / "other").header == ("run", "state", "step", "rate"), "no run fills the others"


def test_every_run_below_is_a_row_and_torn_files_are_no_error(tmp_path: Path) -> None:
    make_run(tmp_path / "b" / "run-2", status="finished", done=10)
    torn = make_run(tmp_path / "a")
    (torn / "config.yaml").write_text("[: \x00")
    (torn / "summary.json").write_text('{"status": ')
    (torn / "metrics.jsonl").write_text('{"step": 1}\n{"ste')
    make_run(torn / "checkpoints" / "no-run")
    rows = status_table(tmp_path).rows
    assert [row[:3] for row in rows] == [("a", "unreadable", "1/?"), ("b/run-2", "finished", "10/10")]


def test_hostile_text_is_shown_and_not_obeyed(tmp_path: Path) -> None:
    run = make_run(tmp_path / "\x1b[31m[bold]run", status="finished")
    (run / "summary.json").write_text(json.dumps({"status": "\x1b]0;owned\x07"}))
    record_job(run, "\x1b[2J7", "\x1b[31m", 1)
    command = [sys.executable, "-m", "rlx", "status", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, env={**os.environ, "PATH": "/nowhere"})
    assert done.returncode == 0, done.stderr
    assert "\x1b" not in done.stdout
    assert "\x07" not in done.stdout
    assert "[bold]run" in done.stdout


def test_it_loads_no_torch() -> None:
    code = "import sys, rlx.commands.status; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], timeout=600).returncode == 0


def test_status_as_json_has_numbers_where_the_table_has_words(tmp_path: Path) -> None:
    hold(make_run(tmp_path / "a" / "run"), host=socket.gethostname(), pid=os.getpid())
    (found,) = status_values(tmp_path)
    assert found["folder"] == str(tmp_path / "a" / "run")
    assert (found["state"], found["step"], found["steps"], found["seconds"], found["left"]) == (
        "running",
        3,
        10,
        2.0,
        14.0,
    )
    assert status_table(tmp_path).title.startswith("1 run in ")


def test_a_run_is_listed_in_its_warm_start_killed_there_and_resumed(
    tmp_path: Path, small_words: tuple[str, ...]
) -> None:
    run, cache = tmp_path / "runs" / "run", tmp_path / "cache"
    warm = ["warm_start.steps=100000", "warm_start.algo.num_prompts=2"]
    words = [*(word for word in small_words if not word.startswith("warm_start")), *warm]
    environment = {**os.environ, "RLX_CACHE": str(cache), "OMP_NUM_THREADS": "1"}

    def start(*words: str) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", "rlx", *words]
        return subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)

    def count_steps() -> int:
        """Count the steps of the warm start, whose folder is in the cache."""
        return sum(len(file.read_bytes().splitlines()) for file in cache.rglob("metrics.jsonl"))

    def wait_for_steps(process: subprocess.Popen[bytes], num: int) -> None:
        while process.poll() is None:
            if count_steps() >= num:
                return
            time.sleep(0.1)
        assert process.stderr is not None
        raise AssertionError(process.stderr.read().decode())

    def states() -> list[str]:
        places = [find(tmp_path / "runs") for find in (runs_below, lambda folder: runs_below(folder, nested=False))]
        assert [list(found) for found in places] == [[run]] * 2
        assert rlx.load(run).config.loc["steps", "value"] == 3
        assert [one.run.state for one in Watcher(tmp_path / "runs").look()] == [read_run(run).state]
        return [cells[1] for cells in status_table(tmp_path / "runs").rows]

    for words_of_start in (["train", *words, f"hydra.run.dir={run}"], ["resume", str(run)]):
        steps_before = count_steps()
        process = start(*words_of_start)
        try:
            wait_for_steps(process, steps_before + 3)
            assert states() == ["warm start"]
        finally:
            process.kill()
            process.communicate()
        assert states() == ["killed"]
