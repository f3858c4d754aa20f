"""A real SLURM of two nodes on this machine: sweeps, and runs that survive what befalls their jobs."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from rlx.cluster.sbatch import sbatch_script
from rlx.hardware.packages import lacks
from rlx.hardware.profile import Hardware
from rlx.runs.attempts import read_attempts
from rlx.runs.folder import LOGS
from rlx.runs.track import is_clock

ROOT = Path(__file__).resolve().parents[2]
SBIN = f"{os.environ['PATH']}:/usr/sbin:/sbin"
MISSING = [name for name in ("slurmctld", "slurmd", "munged", "sbatch") if shutil.which(name, path=SBIN) is None]

pytestmark = [
    pytest.mark.cluster,
    pytest.mark.skipif(bool(MISSING), reason=f"no {', '.join(MISSING)}: apt-get install slurm-wlm munge"),
    pytest.mark.skipif(lacks("slurm") is not None, reason=f"{lacks('slurm')}; `make setup-cluster` installs it"),
    pytest.mark.skipif(os.geteuid() != 0, reason="a private SLURM on one machine needs root"),
]
needs_deepspeed = pytest.mark.skipif(lacks("deepspeed") is not None, reason="DeepSpeed: `make setup-cluster`")

SLOW = '''
"""Countdown whose training episodes take their time to start, so that a test can step in between."""

import time
from dataclasses import dataclass
from pathlib import Path

from rlx.env.countdown.countdown import Countdown, held_out


@dataclass(frozen=True, kw_only=True)
class SlowCountdown(Countdown):
    seconds: float = 0.0
    hurry: str = ""

    def start(self, task):
        time.sleep(0 if held_out(task) or (self.hurry and Path(self.hurry).exists()) else self.seconds)
        return super().start(task)
'''
SLOW_YAML = """# Countdown that takes its time
_target_: slow_countdown.SlowCountdown
# Of every start of a training episode
seconds: 0.0
# Once this file exists, no episode waits
hurry: ""
max_rounds: 2
"""
TWO_NODES = ("hardware=cpux2", "hardware.num_nodes=2")


@pytest.fixture(scope="module", autouse=True)
def slurm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """SLURM, up for this file; what jobs need is in the environment."""
    folder = Path(tempfile.mkdtemp(prefix="rlx-slurm-", dir="/tmp"))  # munged wants every folder above it readable
    folder.chmod(0o755)
    place = tmp_path_factory.mktemp("slow")
    (place / "slow_countdown.py").write_text(SLOW)
    (place / "conf" / "env").mkdir(parents=True)
    (place / "conf" / "env" / "slow.yaml").write_text(SLOW_YAML)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RLX_SLURM_PORT", str(20000 + os.getpid() % 12000))
        patch.setenv("RLX_SLURM_KILL_WAIT", "10")
        up = [str(ROOT / "scripts" / "slurm-up.sh"), str(folder), "2"]
        started = subprocess.run(up, stdout=subprocess.PIPE, text=True, timeout=120, check=True)
        try:
            patch.setenv("SLURM_CONF", started.stdout.strip())
            patch.setenv("PYTHONPATH", os.pathsep.join([str(place), str(ROOT)]))
            patch.setenv("RLX_CONF_DIR", str(place / "conf"))
            patch.setenv("PATH", os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]))
            patch.setenv("MASTER_ADDR", "127.0.0.1")  # names like n1 lead nowhere on this machine
            patch.setenv("MASTER_PORT", str(10000 + os.getpid() % 10000))  # not one that a client may be given
            patch.setenv("DS_ACCELERATOR", "cpu")
            yield
        finally:
            subprocess.run([str(ROOT / "scripts" / "slurm-down.sh"), str(folder)], timeout=120, check=False)
            shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="module")
def words(small_words: tuple[str, ...]) -> tuple[str, ...]:
    kept = [word for word in small_words if not word.startswith(("env", "steps=", "checkpoint.trajectories"))]
    return ("env=slow", "steps=4", *kept)


def call(*command: str) -> str:
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=True).stdout


def start(*words: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "rlx", "train", *words]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def finish(process: subprocess.Popen[str]) -> str:
    """What it printed; it may wait for jobs that are requeued."""
    try:
        return process.communicate(timeout=600)[0]
    finally:
        process.kill()


def submit(folder: Path, *words: str) -> subprocess.Popen[str]:
    return start(*words, "hydra/launcher=slurm", f"hydra.run.dir={folder}")


def told(folder: Path) -> list[dict[str, Any]]:
    lines = (folder / "metrics.jsonl").read_text().splitlines()
    return [{k: v for k, v in json.loads(line).items() if not is_clock(k)} for line in lines]


def wait_until(happened: Callable[[], bool], process: subprocess.Popen[str], seconds: float = 300) -> None:
    end = time.monotonic() + seconds
    while not happened():
        assert process.poll() is None, process.communicate()[0]
        assert time.monotonic() < end, "it did not happen"
        time.sleep(0.1)


def wait_for_lines(folder: Path, num: int, process: subprocess.Popen[str]) -> None:
    path = folder / "metrics.jsonl"
    wait_until(lambda: path.exists() and path.read_bytes().count(b"\n") >= num, process)


def job_in(folder: Path) -> str:
    return str(json.loads((folder / LOGS / "job.json").read_text())["job"])


def kinds(folder: Path) -> list[str]:
    return [attempt.kind for attempt in read_attempts(folder)]


def test_a_sweep_is_one_array(words: tuple[str, ...], tmp_path: Path) -> None:
    values = ("steps=1", "seed=1,2", "env.max_rounds=1,2", f"hydra.sweep.dir={tmp_path}")
    process = start("-m", *(word for word in words if word != "steps=4"), *values, "hydra/launcher=slurm")
    out = finish(process)
    assert process.returncode == 0, out
    assert {job_in(tmp_path / str(i)).split("_")[1] for i in range(4)} == {"0", "1", "2", "3"}
    assert len({job_in(tmp_path / str(i)).split("_")[0] for i in range(4)}) == 1
    assert all(json.loads((tmp_path / str(i) / "summary.json").read_text())["status"] == "finished" for i in range(4))
    assert "seed=2 env.max_rounds=1: finished" in out
    table = call(sys.executable, "-m", "rlx", "status", str(tmp_path))
    assert table.count("finished") == 4


def test_the_runs_of_a_reproduction_are_jobs(words: tuple[str, ...], tmp_path: Path) -> None:
    tree = {
        "source": "a paper",
        "seeds": 2,
        "words": [*(word for word in words if word != "steps=4"), "steps=1"],
        "runs": {"own": {"per_seed": True}},
        "rows": {"ours": "own eval-2"},
    }
    (tmp_path / "tiny.yaml").write_text(json.dumps(tree))
    what = [str(tmp_path / "tiny.yaml"), "--folder", str(tmp_path / "out"), "hydra/launcher=slurm"]
    process = subprocess.Popen(
        [sys.executable, "-m", "rlx", "reproduce", *what], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    out = finish(process)
    assert process.returncode == 0, out
    assert len({job_in(tmp_path / "out" / "own" / seed) for seed in "01"}) == 2
    assert "| ours |" in (tmp_path / "out" / "results.md").read_text()


def test_a_failed_job_is_shown_and_a_cancelled_one_not_waited_for(words: tuple[str, ...], tmp_path: Path) -> None:
    (tmp_path / "1").mkdir()
    (tmp_path / "1" / "config.yaml").write_text("seed: 99\n")
    slow = ("env.seconds=1", "seed=1,2,3", f"hydra.sweep.dir={tmp_path}")
    process = start("-m", *words, *slow, "hydra/launcher=slurm")
    wait_for_lines(tmp_path / "2", 1, process)
    call("scancel", job_in(tmp_path / "2"))
    out = finish(process)
    assert process.returncode == 1, out
    assert "seed=1: finished" in out
    assert "seed=2: failed (rank 0 ended with exit code 2); the end of " in out
    assert "holds a run with another configuration" in out
    assert "seed=3: was cancelled; the others go on" in out
    assert out.strip().splitlines()[-1].startswith("rlx: 2 of 3 jobs did not finish: ")
    assert [kinds(tmp_path / str(i)) for i in (0, 1)] == [["finished"], ["failed"]]


@pytest.fixture(scope="module")
def undisturbed(words: tuple[str, ...], tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("two") / "undisturbed"
    process = submit(folder, *words, *TWO_NODES)
    out = finish(process)
    assert process.returncode == 0, out
    return folder


@needs_deepspeed
def test_two_nodes_share_a_run(undisturbed: Path) -> None:
    assert kinds(undisturbed) == ["finished"]
    assert "#SBATCH --nodes=2" in next((undisturbed / ".submitit").glob(".submission_file_*.sh")).read_text()
    assert (undisturbed / LOGS / "rank-0.log").stat().st_size
    assert (undisturbed / LOGS / "rank-1.log").stat().st_size
    assert len(told(undisturbed)) == 4


def kill_rank(folder: Path) -> None:
    os.kill(json.loads((folder / "ranks" / "rank-1").read_text())["pid"], signal.SIGKILL)


def ask_to_stop(folder: Path) -> None:
    call("scancel", "--signal=USR2", job_in(folder))


def preempt(folder: Path) -> None:
    call("sbatch", "--partition=high", "--nodes=2", "--ntasks=2", "--cpus-per-task=4", f"--output={folder}/high",
         "--wrap", "sleep 1")  # fmt: skip


@needs_deepspeed
@pytest.mark.parametrize(
    ("disturb", "kind", "is_preempted"),
    [(kill_rank, "lost", False), (ask_to_stop, "stopped", False), (preempt, "stopped", True)],
)
def test_a_disturbed_run_ends_as_the_undisturbed(
    undisturbed: Path,
    words: tuple[str, ...],
    tmp_path: Path,
    disturb: Callable[[Path], None],
    kind: str,
    is_preempted: bool,
) -> None:
    folder = tmp_path / "run"
    process = submit(folder, *words, *TWO_NODES, "env.seconds=1", "checkpoint.interval=2")
    wait_for_lines(folder, 1, process)
    time.sleep(0.5)  # into the step
    disturb(folder)
    out = finish(process)
    assert process.returncode == 0, out
    assert kinds(folder) == [kind, "finished"]
    assert read_attempts(folder)[0].is_preempted == is_preempted
    assert told(folder) == told(undisturbed)


def test_a_run_out_of_time_goes_on(words: tuple[str, ...], tmp_path: Path) -> None:
    longer = [word for word in words if word != "steps=4"] + ["steps=13"]
    whole = start(*longer, f"hydra.run.dir={tmp_path / 'whole'}")
    finish(whole)
    folder, hurry = tmp_path / "run", tmp_path / "hurry"
    limits = ("hydra.launcher.timeout_min=1", "hydra.launcher.signal_delay_s=5", "hydra.launcher.max_num_timeout=20")
    # thirteen steps of five seconds or more (the episodes of a step wait side by side) never fit into the minute
    process = submit(folder, *longer, "env.seconds=5", f"env.hurry={hurry}", *limits)
    wait_until(lambda: kinds(folder)[:1] == ["stopped"], process)
    hurry.touch()  # where a start takes most of a minute, five seconds a step would take twenty attempts
    out = finish(process)
    assert process.returncode == 0, out
    found = kinds(folder)
    assert found[-1] == "finished"
    assert len(found) > 1
    assert set(found[:-1]) == {"stopped"}
    assert told(folder) == told(tmp_path / "whole")


@needs_deepspeed
def test_the_script_of_a_plan_survives_a_killed_rank(undisturbed: Path, words: tuple[str, ...], tmp_path: Path) -> None:
    """`rlx launch` in a batch job of one node: torchrun starts the ranks."""
    folder, script = tmp_path / "run", tmp_path / "job.sh"
    hardware = Hardware(num_processes=2, learner="deepspeed")
    script.write_text(sbatch_script(hardware, [*words, "hardware=cpux2", "env.seconds=1", f"hydra.run.dir={folder}"]))
    process = subprocess.Popen(
        ["sbatch", "--wait", f"--output={tmp_path}/out", str(script)], stdout=subprocess.PIPE, text=True
    )
    wait_for_lines(folder, 1, process)
    kill_rank(folder)
    finish(process)
    assert kinds(folder) == ["lost", "finished"], (tmp_path / "out").read_text()
    assert told(folder) == told(undisturbed)
