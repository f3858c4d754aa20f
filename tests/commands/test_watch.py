"""`rlx status --watch`: what is shown of runs as they go on, without a clock and without a terminal."""

from __future__ import annotations

import io
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

import rlx.commands.watch
import rlx.runs.mark
from rlx.base.console import one_line
from rlx.commands.watch import (
    BLOCKS,
    PLAIN,
    RECENT,
    SEARCH,
    WIDTH,
    Watcher,
    last_execution,
    last_warning,
    notes_of,
    sparkline,
    watch,
)
from rlx.runs.folder import MARK
from rlx.runs.mark import ASK
from rlx.runs.slurm import Record
from rlx.runs.summary import Ending, Summary, write_summary
from tests.hostile import TEXTS, dangers

ROOT = Path(__file__).resolve().parents[2]


def make_run(
    folder: Path, *rewards: float, state: Ending | Literal["running"] = "running", log: str = "", steps: int = 10
) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.yaml").write_text(f"{MARK}steps: {steps}\n")
    lines = [{"step": step, "time/step": 2.0, "reward/mean": reward} for step, reward in enumerate(rewards, 1)]
    (folder / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    (folder / "log.txt").write_text(log)
    if state == "running":
        (folder / ".lock").write_text(json.dumps({"host": socket.gethostname(), "pid": os.getpid(), "job": ""}))
    else:
        write_summary(folder / "summary.json", Summary(status=state, seed=0))
    return folder


class Screen:
    """Output of a watch that is stopped after some looks, and what happens between them."""

    def __init__(self, folder: Path, *between: Callable[[], object], terminal: bool = False, encoding: str = "utf-8"):
        self.between = list(between)
        self.file = io.TextIOWrapper(io.BytesIO(), encoding=encoding, errors="backslashreplace")
        console = Console(file=self.file, force_terminal=terminal, width=100, height=30, color_system=None)
        self.times = iter(range(0, 10**6, 2))
        watch(Watcher(folder, clock=lambda: float(next(self.times))), console, interval=2.0, sleep=self.sleep)
        self.file.flush()
        self.text = self.file.buffer.getvalue().decode(encoding)  # type: ignore[attr-defined]

    def sleep(self, seconds: float) -> None:
        assert seconds == 2.0
        if not self.between:
            raise KeyboardInterrupt
        self.between.pop(0)()


def test_a_line_has_state_step_rate_time_left_and_trend(tmp_path: Path) -> None:
    make_run(tmp_path / "a", 0.0, 0.5, 1.0, log="2026 began\n2026 train: 3/10 steps\n")
    lines = Screen(tmp_path).text.splitlines()
    trend = f"{BLOCKS[0]}{BLOCKS[4]}{BLOCKS[7]} reward 1.000"
    assert lines[0] == f"a, running, 3/10, 0.5 steps/s, 14 s, {trend}, {socket.gethostname()}"
    assert lines[1:] == ["  2026 train: 3/10 steps"]


def test_only_a_run_that_changed_has_new_lines(tmp_path: Path) -> None:
    make_run(tmp_path / "a", 0.5)
    b = make_run(tmp_path / "b", 0.5)
    text = Screen(tmp_path, lambda: None, lambda: make_run(b, 0.5, 0.75)).text
    assert [line.split(", ")[0] for line in text.splitlines()] == ["a", "b", "b"]
    assert "2/10" in text.splitlines()[-1]


def test_a_run_that_did_not_change_is_not_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    reads: list[str] = []
    read = rlx.commands.watch.read_run
    monkeypatch.setattr(rlx.commands.watch, "read_run", lambda run, record: reads.append(run.name) or read(run, record))
    runs = [make_run(tmp_path / f"{number:02}", 0.5) for number in range(16)]
    watcher = Watcher(tmp_path, clock=lambda: 0.0)
    for _ in range(3):
        assert len(watcher.look()) == 16
    assert len(reads) == 16
    make_run(runs[3], 0.5, 0.6)
    watcher.look()
    assert reads[16:] == ["03"]


def test_new_runs_are_found_after_a_while_and_runs_at_work_come_first(tmp_path: Path) -> None:
    make_run(tmp_path / "a", 0.5, state="finished")
    now = [0.0]
    watcher = Watcher(tmp_path, clock=lambda: now[0])
    assert [one.run.folder.name for one in watcher.look()] == ["a"]
    make_run(tmp_path / "b", 0.5)
    assert len(watcher.look()) == 1
    now[0] = SEARCH
    assert [one.run.folder.name for one in watcher.look()] == ["b", "a"]


def test_slurm_is_asked_at_intervals_and_a_waiting_job_is_queued(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[list[str]] = []
    record = Record(state="PENDING", reason="Priority", nodes="", is_preempted=False)
    monkeypatch.setattr(rlx.runs.mark, "ask_slurm", lambda jobs: asked.append(jobs) or {"7": record})
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs" / "job.json").write_text(json.dumps({"job": "7", "steps": 5}))
    now = [0.0]
    watcher = Watcher(tmp_path, clock=lambda: now[0])
    (seen,) = watcher.look()
    assert (seen.run.state, seen.run.job, seen.run.where) == ("queued", "7", "Priority")
    watcher.look()
    assert asked == [["7"]]
    now[0] = ASK
    watcher.look()
    assert len(asked) == 2


T = "2026-11-27 07:28:03"


def notes(folder: Path) -> dict[str, list[str]]:
    return {one.run.folder.name: notes_of(one) for one in Watcher(folder).look()}


def test_the_last_warning_of_a_running_run_and_the_error_of_a_failed_one_are_shown(tmp_path: Path) -> None:
    log = f"{T} warning: step 1: first\n{T} warning: step 1: every turn is invalid\n{T} train: 1/10 steps\n"
    make_run(tmp_path / "a", 0.5, log=log)
    make_run(tmp_path / "b", 0.5, state="failed", log=f"{T} ended by RunError: too many\nlater\n")
    make_run(tmp_path / "c", 0.5, state="finished", log=log)
    assert notes(tmp_path) == {
        "a": [f"{T} warning: step 1: every turn is invalid", f"{T} train: 1/10 steps"],
        "b": [f"{T} ended by RunError: too many"],
        "c": [],
    }


def test_a_warning_or_an_error_from_before_the_last_start_is_not_shown(tmp_path: Path) -> None:
    before = f"{T} began: x\n{T} warning: step 1: old\n{T} ended by RunError: once\n"
    make_run(tmp_path / "a", 0.5, log=f"{before}{T} began: x\n{T} train: 1/10 steps\n")
    make_run(tmp_path / "b", 0.5, state="failed", log=f"{before}{T} began: x\n{T} train: 1/10 steps\n")
    assert notes(tmp_path) == {"a": [f"{T} train: 1/10 steps"], "b": []}


def test_a_warning_that_does_not_say_its_step_gets_it_from_the_log(tmp_path: Path) -> None:
    resumed = f"{T} began: x\n{T} resumed from a/checkpoints/step-2\n"
    make_run(tmp_path / "a", 0.5, 0.5, log=f"{resumed}{T} warning: odd\n")
    make_run(tmp_path / "b", 0.5, 0.5, log=f"{resumed}{T} train: 3/10 steps\n{T} warning: odd\n")
    found = notes(tmp_path)
    assert [found[name][0] for name in "ab"] == [f"{T} warning: step {step}: odd" for step in (2, 3)]


@pytest.mark.parametrize(("steps", "is_shown"), [(RECENT, True), (RECENT + 1, False)])
def test_a_warning_older_than_the_sparkline_is_not_shown(steps: int, is_shown: bool, tmp_path: Path) -> None:
    make_run(tmp_path / "a", *[0.5] * steps, log=f"{T} warning: step 1: odd\n{T} train\n", steps=1000)
    assert any("odd" in note for note in notes(tmp_path)["a"]) == is_shown


def test_text_within_an_entry_of_the_log_is_neither_a_start_nor_a_warning(tmp_path: Path) -> None:
    make_run(tmp_path / "a", 0.5, log=f"{T} warning: step 1: real\nbegan: x\nwarning: step 1: of a model\n{T} end\n")
    assert notes(tmp_path)["a"] == [f"{T} warning: step 1: real", f"{T} end"]


def test_a_terminal_gets_a_picture_that_ends_with_the_cursor_back(tmp_path: Path) -> None:
    make_run(tmp_path / "a", 0.0, 1.0, log=f"{T} warning: step 2: odd\n")
    text = Screen(tmp_path, lambda: make_run(tmp_path / "a", 0.0, 1.0, 0.5), terminal=True).text
    assert "1 running in" in text
    assert f"a: {T} warning: step 2: odd" in text
    assert "3/10" in text
    assert text.rindex("\x1b[?25h") > text.rindex("\x1b[?25l"), "the cursor is shown again"


def test_more_runs_than_a_terminal_has_lines_are_cut(tmp_path: Path) -> None:
    for number in range(50):
        make_run(tmp_path / f"{number:02}", 0.5)
    text = Screen(tmp_path, lambda: None, terminal=True).text
    assert "50 running in" in text


def test_an_encoding_without_blocks_gets_letters(tmp_path: Path) -> None:
    make_run(tmp_path / "a", 0.0, 1.0)
    assert f"{PLAIN[0]}{PLAIN[-1]} reward" in Screen(tmp_path, encoding="ascii").text


def test_an_empty_folder_is_no_run_and_damage_hides_no_other_run(tmp_path: Path) -> None:
    assert Screen(tmp_path).text == ""
    assert "no run in" in Screen(tmp_path, lambda: None, terminal=True).text
    make_run(tmp_path / "a", 0.5)
    bad = make_run(tmp_path / "b", 0.5)
    (bad / "metrics.jsonl").write_bytes(b"\xff{]\n" + b'{"step": 1, "reward/mean": "x", "time/step": []}\n')
    (bad / "log.txt").unlink()
    os.mkfifo(bad / "log.txt")
    text = Screen(tmp_path).text
    assert [line.split(", ")[0] for line in text.splitlines()] == ["a", "b"]


@pytest.mark.parametrize("terminal", [True, False])
def test_hostile_text_is_plain(tmp_path: Path, terminal: bool) -> None:
    hostile = f"{T} warning: \x1b]0;x\x07\u202e[red]bold[/red] warning: " + "x" * 10**4
    make_run(tmp_path / "[bold]\u202ea", 0.5, log=f"{'y' * 10**6}\n{hostile}\n")
    text = Screen(tmp_path, lambda: None, terminal=terminal).text
    assert "\u202e" not in text
    assert "\x1b]0" not in text
    assert "[red]bold[/red]" in text
    assert "[bold]" in text
    assert len(text) < 10_000


@given(TEXTS)
def test_whatever_a_log_says_a_line_is_plain_text(text: str) -> None:
    lines = f"{T} began: {text}\n{T} warning: {text}\n{T} ended by {text}\n{text}".splitlines()
    found = [last_warning(last_execution(lines), 1), *map(one_line, last_execution(lines))]
    assert not dangers("".join(found))
    assert max(map(len, found)) <= 200


@pytest.mark.parametrize(
    "value", ["NaN", "Infinity", "-Infinity", "1e999", "null", '"x"', "true", "1" * 400, "-1"], ids=str
)
def test_a_value_that_cannot_be_leaves_the_rest_of_a_line(value: str, tmp_path: Path) -> None:
    run = make_run(tmp_path / "a", 0.5)
    with open(run / "metrics.jsonl", "a") as file:
        file.write(f'{{"step": 2, "time/step": {value}, "reward/mean": {value if value != "-1" else "null"}}}\n')
    (line,) = Screen(tmp_path).text.splitlines()
    assert line.startswith("a, running, 2/10")
    assert "reward 0.500" in line


@given(st.lists(st.floats(-1e300, 1e300), max_size=300), st.sampled_from([BLOCKS, PLAIN]))
def test_a_sparkline_has_a_height_for_each_share(values: list[float], blocks: str) -> None:
    drawn = sparkline(values, blocks)
    assert len(drawn) == min(WIDTH, len(values))
    assert set(drawn) <= set(blocks)


def test_a_sparkline_rises_and_falls() -> None:
    assert sparkline([1.0, 1.0]) == BLOCKS[3] * 2
    assert sparkline([0.0, 1.0, 0.0]) == BLOCKS[0] + BLOCKS[7] + BLOCKS[0]
    assert len(sparkline(range(1000))) == WIDTH  # type: ignore[arg-type]


@pytest.mark.parametrize("signum", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_the_command_with_code_0_and_nothing_on_stderr(tmp_path: Path, signum: int) -> None:
    make_run(tmp_path / "a", 0.5)
    command = [sys.executable, "-m", "rlx", "status", str(tmp_path), "--watch", "--every", "60"]
    process = subprocess.Popen(
        command,
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # what a shell starts behind itself ignores it
    )
    with process, ExitStack() as stack:
        stack.callback(process.kill)
        assert process.stdout is not None
        assert process.stdout.readline().startswith("a, running, 1/10")
        process.send_signal(signum)
        _, errors = process.communicate(timeout=600)
    assert (process.returncode, errors) == (0, "")


def test_it_imports_nothing_heavy() -> None:
    code = "import sys, rlx.commands.watch; sys.exit(bool({'torch', 'hydra', 'pandas'} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", code], cwd=ROOT, timeout=600).returncode == 0
