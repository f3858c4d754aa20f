from __future__ import annotations

import json
import math
import queue
import sys
import threading
import types
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlx.record.track import (
    Dashboard,
    Track,
    append_metrics,
    is_clock,
    metrics_gap,
    metrics_line,
    open_dashboard,
    read_metrics,
    truncate_metrics,
)
from tests.errors import raises_naming

FLOATS = st.floats(allow_nan=False, allow_infinity=False)


def test_a_line_has_step_first_and_the_rest_sorted() -> None:
    line = metrics_line(3, {"reward/mean": 0.1, "kl/mean": 1, "time/step": 2.5})
    assert line == '{"step": 3, "kl/mean": 1.0, "reward/mean": 0.1, "time/step": 2.5}'


@given(st.dictionaries(st.text(min_size=1).filter(lambda name: name != "step"), FLOATS, max_size=5))
def test_every_float_reads_back_as_the_same_float(metrics: dict[str, float]) -> None:
    assert json.loads(metrics_line(1, metrics)) == {"step": 1, **metrics}


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_a_value_that_is_not_finite_is_null(value: float) -> None:
    assert metrics_line(1, {"loss/value": value}) == '{"step": 1, "loss/value": null}'


def test_only_three_nouns_depend_on_the_clock() -> None:
    names = ["time/step", "rate/tokens", "memory/peak", "timeout/count", "reward/time", "time"]
    assert [is_clock(name) for name in names] == [True, True, True, False, False, False]


def written(path: Path, num_steps: int) -> Path:
    for step in range(1, num_steps + 1):
        append_metrics(path, step, {"reward/mean": step / 7})
    return path


def test_truncation_leaves_the_file_of_a_run_that_stopped_there(tmp_path: Path) -> None:
    three, five = written(tmp_path / "three", 3), written(tmp_path / "five", 5)
    assert truncate_metrics(five, 3) == 3
    assert five.read_bytes() == three.read_bytes()
    assert [line["step"] for line in read_metrics(five)] == [1, 2, 3]


@given(cut=st.integers(0, 200))
def test_a_torn_file_keeps_its_whole_lines(cut: int, tmp_path_factory: pytest.TempPathFactory) -> None:
    path = written(tmp_path_factory.mktemp("torn") / "metrics.jsonl", 4)
    whole = path.read_bytes()
    path.write_bytes(whole[:cut])
    num_whole = whole[:cut].count(b"\n")
    assert len(read_metrics(path)) == num_whole
    assert truncate_metrics(path, 99) == num_whole
    assert path.read_bytes() == b"".join(whole.splitlines(keepends=True)[:num_whole])


@pytest.mark.parametrize("damage", [b"\x00\x00\n", b"[]\n", b'{"loss": 1}\n', b"\xff\xfe\n", b'{"step": "1"}\n'])
def test_a_damaged_line_costs_its_own_step_alone(tmp_path: Path, damage: bytes) -> None:
    path = written(tmp_path / "metrics.jsonl", 2)
    path.write_bytes(path.read_bytes() + damage + b'{"step": 4}\n')
    assert "of 1 of 4 steps cannot be read, the first of them that of step 3" in metrics_gap(path, 4)
    assert truncate_metrics(path, 9) == 4
    assert [line["step"] for line in read_metrics(path)] == [1, 2, 4]


def test_no_file_is_an_empty_run(tmp_path: Path) -> None:
    assert read_metrics(tmp_path / "none") == []
    assert truncate_metrics(tmp_path / "none", 4) == 0
    assert not (tmp_path / "none").exists()


def test_step_is_not_a_metric(tmp_path: Path) -> None:
    with raises_naming(ValueError, "'step'"):
        append_metrics(tmp_path / "m", 1, {"step": 1.0})


@pytest.mark.parametrize("bad", [{"timeout": 0}, {"timeout": math.nan}, {"timeout": 1e9}])
def test_a_wrong_setting_is_refused(bad: dict[str, Any]) -> None:
    with raises_naming(ValueError, "timeout="):
        Track(**bad)


class FakeRun:
    def __init__(self) -> None:
        self.logged: list[dict[str, float]] = []
        self.summary: dict[str, float] = {}
        self.exit_code: int | None = None

    def log(self, metrics: dict[str, float]) -> None:
        self.logged.append(metrics)

    def define_metric(self, name: str, step_metric: str) -> None: ...

    def finish(self, exit_code: int) -> None:
        self.exit_code = exit_code


class CommError(Exception):
    pass


def fake_wandb(monkeypatch: pytest.MonkeyPatch, init: Callable[..., Any], login: bool = False) -> None:
    """A wandb of our own in the place of the real one."""
    module = types.ModuleType("wandb")
    vars(module).update(
        init=init,
        login=lambda **_: login,
        Settings=lambda **settings: settings,
        errors=types.SimpleNamespace(CommError=CommError),
    )
    monkeypatch.setitem(sys.modules, "wandb", module)
    monkeypatch.delenv("WANDB_MODE", raising=False)


@pytest.fixture(autouse=True)
def listeners(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A dashboard's thread imports its own test's wandb, never a later one's: it is waited for before that goes."""
    yield
    for thread in listening():
        thread.join(60)


def listening() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "wandb"]


def told(tmp_path: Path, track: Track, rank: int = 0) -> tuple[Dashboard, list[str]]:
    """A dashboard that was opened, told of three steps and closed, and what it said."""
    said: list[str] = []
    dashboard = open_dashboard(track, tmp_path, {"seed": 1}, notice=said.append, rank=rank)
    for step in range(1, 4):
        dashboard.log(step, {"reward/mean": 0.5})
    dashboard.finish({"eval/pass@1": 0.7})
    return dashboard, said


def test_wandb_hears_every_step_and_the_final_figures(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = FakeRun()
    asked: dict[str, Any] = {}
    fake_wandb(monkeypatch, lambda **settings: asked.update(settings) or run)
    dashboard, said = told(tmp_path, Track())
    assert [line["step"] for line in run.logged] == [1, 2, 3]
    assert (run.summary, run.exit_code) == ({"eval/pass@1": 0.7}, 0)
    assert (asked["mode"], asked["name"], asked["dir"]) == ("offline", tmp_path.name, str(tmp_path))
    assert (said, dashboard.failures) == ([], {})


def test_a_resumed_run_keeps_its_id(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ids: list[str] = []
    fake_wandb(monkeypatch, lambda **settings: ids.append(settings["id"]) or FakeRun())
    told(tmp_path, Track())
    told(tmp_path, Track())
    assert ids[0] == ids[1]


@pytest.mark.parametrize(
    ("mode", "variable", "login", "expected"),
    [
        ("auto", None, False, "offline"),
        ("auto", None, True, "online"),
        ("auto", "offline", True, "offline"),
        ("auto", "online", False, "online"),
        ("offline", None, True, "offline"),
        ("online", None, False, "online"),
    ],
)
def test_the_mode_is_the_asked_one_or_the_logins(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: str, variable: str | None, login: bool, expected: str
) -> None:
    modes: list[str] = []
    fake_wandb(monkeypatch, lambda **settings: modes.append(settings["mode"]) or FakeRun(), login)
    if variable:
        monkeypatch.setenv("WANDB_MODE", variable)
    told(tmp_path, Track(mode=mode))
    assert modes == [expected]


def test_an_unreachable_server_means_offline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = FakeRun()

    def init(**settings: Any) -> FakeRun:
        if settings["mode"] == "online":
            raise CommError("no network")
        return run

    fake_wandb(monkeypatch, init)
    dashboard, _ = told(tmp_path, Track(mode="online"))
    assert len(run.logged) == 3
    assert not dashboard.failures


def test_a_wandb_that_cannot_start_is_one_line_and_nothing_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def init(**settings: Any) -> FakeRun:
        raise RuntimeError("broken\n\x1b[31mbadly")

    fake_wandb(monkeypatch, init)
    dashboard, said = told(tmp_path, Track())
    assert dashboard.failures == {"RuntimeError": 1}
    assert len(said) == 1
    assert len(said[0].splitlines()) == 1
    assert "\x1b" not in said[0]


def test_each_failure_is_counted_and_told_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = FakeRun()
    monkeypatch.setattr(run, "log", lambda metrics: 1 / 0)
    fake_wandb(monkeypatch, lambda **settings: run)
    dashboard, said = told(tmp_path, Track())
    assert dashboard.failures == {"ZeroDivisionError": 3}
    assert len(said) == 1
    assert run.exit_code == 0


def test_a_missing_wandb_does_not_stop_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "wandb", None)
    dashboard, said = told(tmp_path, Track())
    assert dashboard.failures == {"ModuleNotFoundError": 1}
    assert len(said) == 1


def test_a_wandb_that_hangs_is_left_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    release = threading.Event()
    fake_wandb(monkeypatch, lambda **settings: release.wait(60) and FakeRun())
    dashboard, said = told(tmp_path, Track(timeout=0.05))
    release.set()
    assert dashboard.failures == {"TimeoutError": 1}
    assert "did not finish" in said[0]


def test_a_wandb_too_slow_to_listen_loses_steps_but_never_holds_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    release = threading.Event()
    fake_wandb(monkeypatch, lambda **settings: release.wait(60) and FakeRun())
    said: list[str] = []
    dashboard = open_dashboard(Track(timeout=0.05), tmp_path, {}, notice=said.append)
    for step in range(1_100):
        dashboard.log(step, {})
    assert dashboard.failures["BufferError"] >= 98
    assert sum("too slow" in line for line in said) == 1
    release.set()
    dashboard.timeout = 60.0
    dashboard.finish()
    assert not listening(), "what is queued was taken first, and made room for the end"


def test_the_end_waits_its_timeout_in_all_however_full_the_queue(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]

    def wait(*_: object, timeout: float | None = None) -> None:
        now[0] += timeout or 0.0

    def is_full(*_: object, timeout: float) -> None:
        wait(timeout=timeout)
        raise queue.Full

    monkeypatch.setattr("rlx.record.track.monotonic", lambda: now[0])
    monkeypatch.setattr(queue.Queue, "put", is_full)
    stuck = types.SimpleNamespace(join=lambda timeout: wait(timeout=timeout), is_alive=lambda: True)
    dashboard = Dashboard(notice=lambda text: None, timeout=5.0, _thread=cast(Any, stuck))
    dashboard.finish()
    assert now == [5.0]
    assert dashboard.failures == {"BufferError": 2, "TimeoutError": 1}


@pytest.mark.parametrize(("mode", "rank"), [("disabled", 0), ("offline", 1)])
def test_disabled_and_other_ranks_never_import_wandb(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: str, rank: int
) -> None:
    monkeypatch.setitem(sys.modules, "wandb", None)
    dashboard, said = told(tmp_path, Track(mode=mode), rank)
    assert (said, dashboard.failures, list(tmp_path.iterdir())) == ([], {}, [])


def test_the_real_wandb_writes_an_offline_run(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    dashboard, said = told(tmp_path, Track(mode="offline", timeout=120))
    assert (said, dashboard.failures) == ([], {})
    assert len(list(tmp_path.glob("wandb/offline-run-*/run-*.wandb"))) == 1
    assert "wandb" not in capfd.readouterr().out
