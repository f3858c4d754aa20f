"""`rlx check`: what it passes, what it does not, and that it leaves nothing."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rlx.cluster.check.probe import Bars, gone_on
from rlx.cluster.check.selftest import agreement, as_words, check, reductions
from rlx.cluster.check.trial import CLEAR, HighWater, attempt, held_at_most, phase_of
from rlx.hardware.profile import Hardware
from rlx.rollout import choice
from rlx.rollout.torch import engine as torch_engine
from rlx.settings.compose import ConfigError, compose
from tests.errors import raises_naming
from tests.loops import for_each

Build = Callable[..., Any]
SMALL = ("env.max_rounds=2", "sampling.max_new_tokens=40", "algo.num_prompts=2", "warm_start.steps=1")


def rlx(folder: Path, *words: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "rlx", "check", *words]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    return subprocess.Popen(command, env={**os.environ, "TMPDIR": str(folder)}, text=True, **pipes)  # type: ignore[call-overload]


def test_a_machine_without_a_gpu_passes_and_nothing_is_left(tmp_path: Path) -> None:
    process = rlx(tmp_path, "hardware=cpu", *SMALL)
    told, errors = process.communicate(timeout=300)
    assert process.returncode == 0, told + errors
    marks = [line.split()[0] for line in told.split("\n\n")[0].splitlines() if line[0] != " "]
    assert marks == ["ok"] * 7
    assert "step 2 the same to the bit" in told
    assert "sampled" in told
    assert "steps 40 -> 2" in told
    assert "sampling.max_new_tokens" not in told, "a key that was named stays"
    assert max(map(len, told.splitlines())) <= 80
    assert not list(tmp_path.iterdir())


def test_wrong_words_are_refused_before_anything_is_started(tmp_path: Path) -> None:
    process = rlx(tmp_path, "algo.num_promts=2")
    _, errors = process.communicate(timeout=600)
    assert process.returncode == 2
    assert "num_prompts" in errors
    assert len(errors.splitlines()) == 1


def test_it_ends_when_its_time_is_over_and_says_where(tmp_path: Path) -> None:
    process = rlx(tmp_path, *SMALL, "--minutes", "0.1")
    told, _ = process.communicate(timeout=600)
    assert process.returncode == 1
    assert told.startswith("FAILED  a run from start to end   not done in the time there was")
    assert "not run nothing is left behind" in told
    assert not list(tmp_path.iterdir())


def test_asked_to_stop_it_leaves_nothing(tmp_path: Path) -> None:
    process = rlx(tmp_path, *SMALL)
    while not list(tmp_path.glob("rlx-check-*/run/logs/rank-0.log")) and process.poll() is None:
        time.sleep(0.05)
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=600)
    assert process.returncode == 130
    assert not list(tmp_path.iterdir())


@pytest.fixture
def probed(small_run: Build, tmp_path: Path) -> Callable[[], dict[str, bool | None]]:
    """Which checks the engine of this process passes."""

    def probe() -> dict[str, bool | None]:
        found = gone_on(small_run(tmp_path, "steps=1", without=("steps",)))
        return {each.name: each.ok for each in agreement(found, 1e-3)}

    return probe


def test_a_sound_engine_passes(probed: Any) -> None:
    assert probed() == {"engine and learner agree": True, "weights arrive": True}


def test_a_rate_that_hardly_moves_weights_is_raised_until_it_does(small_run: Build, tmp_path: Path) -> None:
    found = gone_on(small_run(tmp_path, "steps=1", "algo.optimizer.lr=1e-6", without=("steps",)))
    assert found["moved"] > CLEAR * 1e-3


def test_an_engine_that_keeps_its_old_weights_fails(probed: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def load(self: Any, weights: Any, version: int) -> None:
        self.version = version

    monkeypatch.setattr(torch_engine.TorchEngine, "load", load)
    assert probed()["weights arrive"] is False


def test_an_engine_whose_log_probs_are_off_fails(probed: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    sample = choice.sample

    def off(*told: Any) -> Any:
        ids, logprobs = sample(*told)
        return ids, logprobs - 0.01

    monkeypatch.setattr(choice, "sample", off)
    assert probed()["engine and learner agree"] is False


FOUND = {"gap": 1e-6, "moved": 0.5, "arrived": 1e-6, "versions": [3], "version": 3, "tokens": 9}


@for_each(
    "change, agree, arrive, told",
    [
        ({}, True, True, "within 1.0e-06 of the learner"),
        ({"gap": 0.2}, False, False, "too little"),
        ({"gap": float("nan")}, False, True, ""),
        ({"arrived": 0.5}, True, False, "the engine stayed 0.5 from the learner"),
        ({"arrived": float("nan")}, True, False, "stayed nan"),
        ({"moved": 1e-4}, True, False, "updates moved log-probs by 0.0001 only"),
        ({"versions": [2]}, True, False, "its tokens say version [2], the learner is at 3"),
    ],
)
def test_what_a_probe_says(change: dict[str, Any], agree: bool, arrive: bool, told: str) -> None:
    first, second = agreement({**FOUND, **change}, 1e-3)
    assert (first.ok, second.ok) == (agree, arrive)
    assert told in second.report


def test_a_run_is_made_small_but_for_what_was_named() -> None:
    words = ["model=qwen2_5_7b", "hardware=a100x8", "steps=7", "algo.num_prompts=3"]
    changed = reductions(compose(words), words)
    assert {"steps", "algo.num_prompts"}.isdisjoint(changed)
    tree = compose([*words, *as_words(changed)])
    assert tree["evaluate"]["num_tasks"] == 8, "one for each process"
    assert (
        compose([*words, "evaluate.ks=[1,16]", *as_words(reductions(compose([*words, "evaluate.ks=[1,16]"]), words))])[
            "evaluate"
        ]["ks"]
        == []
    )
    assert tree["warm_start"]["steps"] == 2
    assert tree["track"]["mode"] == "disabled"


def test_a_run_that_fails_says_why(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    tried = attempt("nonsense", tmp_path, Hardware(), [], time.monotonic() + 600)
    assert not tried.is_good
    assert tried.report == "rank 0 ended with exit code 1: KeyError: 'nonsense'"
    assert phase_of(tmp_path / "run") == "before its start"


def test_a_process_holds_its_high_water_mark_and_a_share_of_each_shared_page() -> None:
    status = "Name:\tx\nVmHWM:\t   12 kB\nVmRSS:\t 9 kB\n"
    assert held_at_most(status, "") == 12 * 1024
    assert held_at_most(status, "Rss:  9 kB\nPss:   4 kB\nPss_Dirty:  3 kB\n") == (12 - 9 + 4) * 1024
    assert held_at_most("Name: kernel thread", "") == 0


def test_memory_is_of_the_processes_of_one_moment() -> None:
    held, before, memory = "x = bytearray(150_000_000); print('held', flush=True); input()", HighWater(), HighWater()
    before.look()
    for _ in range(2):  # one after the other: never both at once
        command = [sys.executable, "-c", held]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
            assert process.stdout is not None
            process.stdout.readline()
            memory.look()
            process.communicate(b"\n")
    assert 150e6 < memory.most - before.most < 250e6
    assert memory.num == before.num + 1


def test_a_process_that_has_just_been_forked_holds_nothing_of_its_own() -> None:
    forks = (
        "import os; x = bytearray(150_000_000); r, w = os.pipe(); pid = os.fork()\n"
        "if not pid: os.close(w); os.read(r, 1); os._exit(0)\n"
        "print('held', flush=True); input(); os.close(w); os.waitpid(pid, 0)"
    )
    before, memory = HighWater(), HighWater()
    before.look()
    with subprocess.Popen([sys.executable, "-c", forks], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        memory.look()
        process.communicate(b"\n")
    assert memory.num == before.num + 2
    assert 150e6 < memory.most - before.most < 250e6


def test_a_folder_that_holds_something_is_not_written_to(tmp_path: Path) -> None:
    (tmp_path / "mine").write_text("kept")
    for place in (tmp_path, tmp_path / "mine"):
        with raises_naming(ConfigError, f"--keep {place}", "already"):
            check([], lambda run: None, minutes=1, keep_folder=place)
    assert [path.name for path in tmp_path.iterdir()] == ["mine"]


def test_a_check_shows_bars_and_leaves_the_rest_to_the_log(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    screen = Bars(log=tmp_path / "log.txt")
    screen.say("left in a folder that goes away")
    assert capsys.readouterr().err == ""
    assert "left in a folder" in (tmp_path / "log.txt").read_text()
