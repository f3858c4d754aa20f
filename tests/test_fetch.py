"""What is taken from a hub: asked for once, ended at once, and said in one line where there is no hub."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from rlx.base import fetch
from rlx.base.fetch import FetchError, snapshot
from rlx.env import hub
from rlx.env.countdown.countdown import Countdown
from rlx.hardware.interrupt import InterruptedRunError
from rlx.hardware.ranks import ALONE
from rlx.run.execution import Execution, fetch_first
from rlx.run.inputs import fetch_inputs
from rlx.run.process import Process
from tests.errors import raises_naming


@pytest.fixture(autouse=True)
def nothing_fetched(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(fetch, "downloaded", {})
    monkeypatch.setenv("HF_HOME", str(tmp_path))
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")


@pytest.mark.parametrize(
    ("name", "kind", "offline", "names"),
    [
        ("owner/name", "model", "", ["model.path=owner/name", "hub"]),
        ("owner/name", "dataset", "1", ["env.hub=owner/name", "HF_HUB_OFFLINE"]),
        ("owner/na me", "model", "", ["model.path=owner/na me", "owner/name"]),
    ],
)
def test_without_a_hub_it_is_one_line(
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
    name: str,
    kind: Any,
    offline: str,
    names: list[str],
) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", offline or "0")
    with raises_naming(FetchError, *names) as caught:
        snapshot(name, kind)
    assert caught.value.exit_code == 2
    assert "".join(capfd.readouterr()) == ""


def test_a_signal_ends_it_at_once_and_leaves_no_process(monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[subprocess.Popen[bytes]] = []
    start = subprocess.Popen

    def stuck(command: Any, **settings: Any) -> subprocess.Popen[bytes]:
        waiting = [sys.executable, "-c", "import signal, time; signal.signal(2, signal.SIG_IGN); time.sleep(600)"]
        started.append(start(waiting, stdin=subprocess.PIPE, stdout=subprocess.PIPE))
        return started[0]

    def check() -> None:
        if started:
            raise InterruptedRunError(2)

    with monkeypatch.context() as patch:
        patch.setattr(fetch.subprocess, "Popen", stuck)
        with pytest.raises(InterruptedRunError):
            snapshot("owner/name", "model", check)
    assert started[0].returncode is not None
    assert not fetch.downloaded


def test_a_process_asks_once(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    asked: list[str] = []
    monkeypatch.setattr(fetch, "fetch_apart", lambda name, kind, check: asked.append(name) or tmp_path)
    assert snapshot("owner/name", "model") == snapshot("owner/name", "model", lambda: None) == tmp_path
    assert asked == ["owner/name"]


def test_what_is_on_a_hub_is_the_model_and_the_data_set(
    small_run: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    asked: list[tuple[str, str]] = []
    monkeypatch.setattr(fetch, "fetch_apart", lambda name, kind, check: asked.append((kind, name)) or tmp_path)
    run = small_run(tmp_path)
    fetch_inputs(run)
    assert asked == []
    fetch_inputs(replace(run, model=replace(run.model, path="a/b"), env=Countdown(source="hub", hub="c/d")))
    assert asked == [("model", "a/b"), ("dataset", "c/d")]


@pytest.mark.parametrize("rank", [0, 1])
def test_rank_0_fetches_first(small_run: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, rank: int) -> None:
    order: list[str] = []

    class Two(type(ALONE)):  # type: ignore[misc]
        def first(self, do: Any) -> Any:
            order.append("rank 0's turn")
            return do() if self.is_first else None

    from rlx.hardware.interrupt import Interrupt

    monkeypatch.setattr("rlx.run.execution.fetch_inputs", lambda run, check: order.append("fetched"))
    process = Process(screen=None, interrupt=Interrupt(), ranks=Two(rank=rank, size=2))  # type: ignore[arg-type]
    execution = Execution(run=small_run(tmp_path), process=process)
    fetch_first(execution)
    assert order == ["rank 0's turn", "fetched"]


def test_what_is_here_of_a_hub_is_told_by_its_commit(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    assert hub.edition("owner/name") == ""
    refs = tmp_path / "datasets--owner--name" / "refs"
    refs.mkdir(parents=True)
    for commit in ("a" * 40, "b" * 40):
        (refs / "main").write_text(commit)
        assert hub.edition("owner/name") == commit
    monkeypatch.setitem(fetch.downloaded, ("owner/name", "dataset"), tmp_path / "snapshots" / "c")
    assert hub.edition("owner/name") == "c"
    assert fetch.revision("owner/name", "model") == ""
