"""Trackers beside metrics.jsonl: what they receive, and that a run neither waits for them nor fails with them."""

from __future__ import annotations

import os
import queue
import sys
import threading
import types
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, cast

import pytest
from hypothesis import given

from rlx.runs.dashboard import Dashboard
from rlx.runs.episode_table import LONGEST, cell, episode_rows, row_of
from rlx.runs.track import Track, append_metrics, finite_numbers
from rlx.runs.trackers import open_dashboards
from rlx.types import Action, Completion, Task, Text, Trajectory, Turn
from tests.hostile import TEXTS, dangers
from tests.loops import for_each


class FakeRun:
    def __init__(self) -> None:
        self.logged: list[dict[str, float]] = []
        self.summary: dict[str, float] = {}
        self.exit_code: int | None = None

    def log(self, metrics: dict[str, float], step: int | None = None, commit: bool | None = None) -> None:
        self.logged.append(metrics)

    @property
    def steps(self) -> list[float]:
        return [line["step"] for line in self.logged if "step" in line]

    def define_metric(self, name: str, step_metric: str, summary: str | None = None) -> None: ...

    def finish(self, exit_code: int) -> None:
        self.exit_code = exit_code


class FakeTable:
    def __init__(self, columns: list[str], data: list[list[Any]]) -> None:
        self.rows = [dict(zip(columns, row, strict=True)) for row in data]


class CommError(Exception):
    pass


class FakeSettings:
    """Settings of a wandb that reads no file."""

    def __init__(self, **settings: Any) -> None:
        self.settings = settings

    def read_system_settings(self) -> types.SimpleNamespace:
        return types.SimpleNamespace(_local_path=Path(os.devnull))


def fake_wandb(monkeypatch: pytest.MonkeyPatch, init: Callable[..., Any], login: bool = False) -> None:
    """A wandb of our own in the place of the real one."""
    module = types.ModuleType("wandb")
    vars(module).update(
        init=init,
        login=lambda **_: login,
        Settings=FakeSettings,
        errors=types.SimpleNamespace(CommError=CommError),
        Table=FakeTable,
        plot=types.SimpleNamespace(line=lambda *_, **__: "line", histogram=lambda *_, **__: "histogram"),
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
    return [thread for thread in threading.enumerate() if thread.name in ("W&B", "TensorBoard")]


def told(tmp_path: Path, track: Track, rank: int = 0) -> tuple[Dashboard, list[str]]:
    """A dashboard that was opened, told of three steps and closed, and what it said."""
    said: list[str] = []
    dashboard = open_one(track, tmp_path, said, rank)
    for step in range(1, 4):
        dashboard.log(step, {"reward/mean": 0.5})
    dashboard.finish({"eval/pass@1": (0.7, 0.5, 0.9)})
    return dashboard, said


def open_one(track: Track, folder: Path, said: list[str], rank: int = 0) -> Dashboard:
    """The only dashboard, or one that was never started."""
    found = open_dashboards(track, folder, {"seed": 1}, notice=said.append, code=lambda: {"commit": "c"}, rank=rank)
    assert len(found) <= 1
    return found[0] if found else Dashboard(name="none", notice=said.append, timeout=1.0)


def test_wandb_hears_every_step_and_the_final_figures(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = FakeRun()
    asked: dict[str, Any] = {}
    fake_wandb(monkeypatch, lambda **settings: asked.update(settings) or run)
    dashboard, said = told(tmp_path, Track())
    assert run.steps == [1, 2, 3]
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
    assert run.steps == [1, 2, 3]
    assert not dashboard.failures


def test_a_login_that_fails_means_offline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    modes: list[str] = []

    def login(**_: object) -> bool:
        raise CommError("wrong key")

    fake_wandb(monkeypatch, lambda **settings: modes.append(settings["mode"]) or FakeRun())
    monkeypatch.setattr(sys.modules["wandb"], "login", login)
    dashboard, _ = told(tmp_path, Track())
    assert (modes, dashboard.failures) == (["offline"], {})


def test_a_resumed_run_sends_the_steps_before_its_checkpoint_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = FakeRun()
    fake_wandb(monkeypatch, lambda **_: run)
    for step in (1, 2):
        append_metrics(tmp_path / "metrics.jsonl", step, {"reward/mean": float(step), "loss/value": float("nan")})
    dashboard = open_one(Track(), tmp_path, [])
    dashboard.log(3, {"reward/mean": 3.0})
    dashboard.finish({})
    assert run.logged == [{"step": step, "reward/mean": float(step)} for step in (1, 2, 3)]


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
    monkeypatch.setattr(run, "log", lambda metrics, **_: 1 / 0)
    fake_wandb(monkeypatch, lambda **settings: run)
    dashboard, said = told(tmp_path, Track())
    assert dashboard.failures == {"ZeroDivisionError": 4}, "three steps and the tables"
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
    dashboard = open_one(Track(timeout=0.05), tmp_path, said)
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

    monkeypatch.setattr("rlx.runs.dashboard.monotonic", lambda: now[0])
    monkeypatch.setattr(queue.Queue, "put", is_full)
    stuck = types.SimpleNamespace(join=lambda timeout: wait(timeout=timeout), is_alive=lambda: True)
    dashboard = Dashboard(name="W&B", notice=lambda text: None, timeout=5.0, _thread=cast(Any, stuck))
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


def test_the_page_has_passes_at_k_and_the_state_of_the_code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = FakeRun()
    asked: dict[str, Any] = {}
    fake_wandb(monkeypatch, lambda **settings: asked.update(settings) or run)
    dashboard = open_one(Track(), tmp_path, [])
    dashboard.finish({"eval/pass@16": (0.9, 0.8, 1.0), "eval/pass@2": (0.5, 0.4, 0.6), "eval/reward": (1.0, 1.0, 1.0)})
    assert not dashboard.failures
    (tables,) = run.logged
    assert cast(Any, tables["tables/pass@k"]).rows == [
        {"policy": "eval", "k": 2, "pass@k": 0.5, "low": 0.4, "high": 0.6},
        {"policy": "eval", "k": 16, "pass@k": 0.9, "low": 0.8, "high": 1.0},
    ]
    assert asked["config"]["code"] == {"commit": "c"}
    assert (asked["group"], asked["job_type"]) == (None, "seed 1")


def test_the_page_has_a_bounded_table_of_episodes(run_copy: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = FakeRun()
    fake_wandb(monkeypatch, lambda **settings: run)
    open_one(Track(episodes=3), run_copy, []).finish({})
    rows = cast(Any, run.logged[-1]["tables/episodes"]).rows
    assert [row["file"] for row in rows] == ["eval-2"] * 3
    assert {"task", "reward", "success", "turns", "tokens", "prompt", "episode"} <= set(rows[0])
    run.logged.clear()
    open_one(Track(episodes=0), run_copy, []).finish({})
    assert not any("tables/episodes" in line for line in run.logged)


def test_a_run_of_a_sweep_is_in_the_group_of_the_sweep(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    groups: list[str] = []
    fake_wandb(monkeypatch, lambda **settings: groups.append(settings["group"]) or FakeRun())
    folder = tmp_path / "countdown" / "today" / "0"
    folder.mkdir(parents=True)
    (folder.parent / "multirun.yaml").touch()
    told(folder, Track())
    told(folder, Track(group="mine"))
    assert groups == ["countdown/today", "mine"]


def test_hostile_text_is_plain_in_a_table_of_episodes() -> None:
    text = "\x1b]0;x\x07\u202e<script>\ud800" + "x" * 10**6
    turn = Turn(
        prompt_ids=(1,),
        completion=Completion(token_ids=(1,), logprobs=(0.0,), stop="eos"),
        action=Action(kind="call", name=text, text=text),
        observation=(Text(text),),
    )
    task = Task(id=text, prompt=(Text(text),), data={})
    row = row_of(text, Trajectory(task=task, sample=0, turns=(turn,), status="done"))
    cells = [value for value in row if isinstance(value, str)]
    assert max(map(len, cells)) <= LONGEST
    assert not {"\x1b", "\x07", "\u202e", "\ud800"} & set("".join(cells))
    assert all(cell.encode() for cell in cells)


@given(TEXTS)
def test_whatever_a_text_is_a_cell_or_a_name_is_plain(text: str) -> None:
    assert dangers(cell(text)) <= {"\n", "\t"}
    assert not dangers("".join(finite_numbers({text: 1.0})))


@for_each("value", [float("nan"), float("inf"), 10**400, None, "1", True])
def test_what_is_no_finite_number_is_not_sent(value: Any) -> None:
    assert finite_numbers({"a": value, "b": 1.0, "step": 3}) == {"b": 1.0}


def test_a_folder_whose_episodes_cannot_be_read_has_no_table(tmp_path: Path) -> None:
    assert episode_rows(tmp_path, 5) == []
    (tmp_path / "trajectories").mkdir()
    (tmp_path / "trajectories" / "eval-1.jsonl").write_text("{")
    assert episode_rows(tmp_path, 5) == []


def test_names_that_no_page_can_hold_reach_the_real_wandb(tmp_path: Path) -> None:
    said: list[str] = []
    dashboard = open_one(Track(mode="offline", timeout=120), tmp_path, said)
    dashboard.log(1, {"env/\ud800\x1b[2J<b>": 1.0, "env/" + "x" * 10**5: 2.0})
    dashboard.finish({"eval/\ud800/pass@1": (0.5, float("nan"), float("inf")), "eval/pass@1": (0.5, 0.4, 0.6)})
    assert (said, dashboard.failures) == ([], {})
