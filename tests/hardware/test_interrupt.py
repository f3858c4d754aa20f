"""Runs that are killed, in processes of their own: whatever comes, they end as the undisturbed run."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from rlx.hardware.interrupt import InterruptedRunError, listen
from rlx.runs.track import is_clock
from tests.errors import raises_naming


@pytest.fixture(autouse=True)
def heard() -> Iterator[None]:
    """SIGHUP as a shell leaves it, for this process and those below: whoever runs the tests may have had it ignored."""
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    yield
    signal.signal(signal.SIGHUP, before)


def start(folder: Path, words: tuple[str, ...]) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "rlx", "train", *words, f"hydra.run.dir={folder}"]
    return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)


def told(folder: Path) -> list[dict[str, Any]]:
    lines = (folder / "metrics.jsonl").read_text().splitlines()
    return [{k: v for k, v in json.loads(line).items() if not is_clock(k)} for line in lines]


def wait_for_lines(folder: Path, num: int, process: subprocess.Popen[bytes]) -> None:
    """Until metrics.jsonl has `num` lines, or the run has ended."""
    path = folder / "metrics.jsonl"
    while process.poll() is None and (not path.exists() or path.read_bytes().count(b"\n") < num):
        time.sleep(0.02)


@pytest.fixture(scope="module")
def words(small_words: tuple[str, ...]) -> tuple[str, ...]:
    return (*small_words, "steps=10", "checkpoint.interval=2")


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory, words: tuple[str, ...]) -> Path:
    folder = tmp_path_factory.mktemp("undisturbed")
    assert start(folder, words).wait() == 0
    return folder


def test_a_run_killed_at_random_moments_ends_as_if_it_had_not_been(
    undisturbed: Path, words: tuple[str, ...], tmp_path: Path
) -> None:
    rng = random.Random(os.environ.get("PYTEST_SEED", "kill"))
    for lines in (1, 3, 4):
        process = start(tmp_path, words)
        wait_for_lines(tmp_path, lines, process)
        time.sleep(rng.random() * 0.2)
        process.kill()
        process.wait()
    assert start(tmp_path, words).wait() == 0
    assert told(tmp_path) == told(undisturbed)
    assert json.loads((tmp_path / "summary.json").read_text())["status"] == "finished"


def test_each_signal_stops_the_run_politely_and_it_goes_on(
    undisturbed: Path, words: tuple[str, ...], tmp_path: Path
) -> None:
    """One run is stopped three times, each time after a further step."""
    lines = 0
    for signum, code in ((signal.SIGTERM, 143), (signal.SIGHUP, 143), (signal.SIGINT, 130)):
        process = start(tmp_path, words)
        wait_for_lines(tmp_path, lines + 1, process)
        process.send_signal(signum)
        _, error = process.communicate()
        assert process.returncode == code, (signum, error)
        assert error.decode().strip().splitlines()[-1].startswith("rlx: interrupted by SIG"), signum
        assert json.loads((tmp_path / "summary.json").read_text())["status"] == "interrupted", signum
        lines = len(told(tmp_path))
    assert start(tmp_path, words).wait() == 0
    assert told(tmp_path) == told(undisturbed)


def test_a_scheduler_may_repeat_itself_and_a_person_may_insist() -> None:
    with listen() as interrupt:
        for signum in (signal.SIGUSR2, signal.SIGTERM, signal.SIGTERM):
            signal.raise_signal(signum)
        assert interrupt.signum == signal.SIGUSR2
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)


def test_a_terminal_that_goes_stops_a_run_unless_it_was_told_to_stay() -> None:
    before = signal.getsignal(signal.SIGHUP)
    with listen() as interrupt:
        signal.raise_signal(signal.SIGHUP)
        assert interrupt.signum == signal.SIGHUP
    try:
        signal.signal(signal.SIGHUP, signal.SIG_IGN)  # nohup
        with listen() as interrupt:
            signal.raise_signal(signal.SIGHUP)
            assert not interrupt.signum
        assert signal.getsignal(signal.SIGHUP) == signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, before)


def test_a_signal_that_came_before_the_run_began_is_not_lost() -> None:
    before = signal.getsignal(signal.SIGUSR2)
    with listen():
        signal.raise_signal(signal.SIGUSR2)
        with listen() as inner, raises_naming(InterruptedRunError, "SIGUSR2"):
            inner.check()
    assert signal.getsignal(signal.SIGUSR2) == before
