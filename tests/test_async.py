"""Whole runs on rollout servers: as without them where they are synchronous, and repeatable where they are not."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from rlx.algo.parts import Sampler
from rlx.base.console import Screen
from rlx.hardware.interrupt import InterruptedRunError
from rlx.model.load import load_model, load_tokenizer
from rlx.rollout.remote.server import RolloutServer
from rlx.run import step as program
from rlx.run.evaluation_run import evaluate_run
from rlx.run.trainee import build_engine
from rlx.runs.track import is_clock
from rlx.training import train

Build = Callable[..., Any]
QUIET = Screen(silent=True)
STEPS = ("hardware=cpu_async", "steps=4", "checkpoint.interval=2")
ONE_BEHIND = (*STEPS, "env.max_rounds=1")


def told(folder: Path) -> list[dict[str, Any]]:
    """metrics.jsonl without what the clock says."""
    lines = (folder / "metrics.jsonl").read_text().splitlines()
    return [{k: v for k, v in json.loads(line).items() if not is_clock(k)} for line in lines]


@pytest.fixture
def server(small_run: Build, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[RolloutServer]:
    """One that is there already, in a thread of this process: it starts at once."""
    run = small_run(tmp_path / "server")
    loaded: Any = load_model(run.model)
    engine = build_engine(run.hardware, run.model, loaded, dict(loaded.state_dict()), load_tokenizer(run.model))
    server = RolloutServer(engine, token="s")
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    monkeypatch.setenv("RLX_SERVERS", server.address)
    monkeypatch.setenv("RLX_SERVER_TOKEN", "s")
    yield server
    server.shutdown()
    server.server_close()
    thread.join()


def finish(run: Any) -> list[dict[str, Any]]:
    assert train(run, QUIET).synchronous == (run.hardware.staleness == 0)
    return told(run.folder)


def test_without_staleness_a_server_changes_nothing(server: Any, small_run: Build, tmp_path: Path) -> None:
    here = finish(small_run(tmp_path / "here"))
    there = finish(small_run(tmp_path / "there", "hardware.num_servers=1"))
    assert json.loads((tmp_path / "there" / "summary.json").read_text())["synchronous"] is True
    for mine, theirs in zip(here, there, strict=True):
        assert (theirs.pop("engine/moved"), theirs.pop("engine/servers")) == (0, 1)
        assert theirs == pytest.approx(mine, abs=1e-4)


def test_rollouts_one_update_old_repeat_and_survive_a_stop(
    server: Any, small_run: Build, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = finish(small_run(tmp_path / "whole", *ONE_BEHIND))
    assert [line["version/lag"] for line in whole] == [0, 1, 1, 1]
    assert json.loads((tmp_path / "whole" / "summary.json").read_text())["synchronous"] is False
    assert finish(small_run(tmp_path / "again", *ONE_BEHIND)) == whole

    crash_in_update_of(monkeypatch, step=3)
    with pytest.raises(CrashError):
        finish(small_run(tmp_path / "crashed", *ONE_BEHIND))
    monkeypatch.undo()
    kept = tmp_path / "crashed" / "checkpoints" / "step-2" / "trajectories"
    assert [path.name for path in kept.glob("step*")] == ["step-000003.jsonl"]
    monkeypatch.setenv("RLX_SERVERS", server.address)
    monkeypatch.setenv("RLX_SERVER_TOKEN", "s")
    assert finish(small_run(tmp_path / "crashed", *ONE_BEHIND)) == whole


class CrashError(Exception):
    """Stands for whatever ends a run."""


def crash_in_update_of(monkeypatch: pytest.MonkeyPatch, step: int) -> None:
    collate = program.collate
    calls = iter(range(1, 100))

    def crash(groups: Any) -> Any:
        if next(calls) == step:
            raise CrashError
        return collate(groups)

    monkeypatch.setattr(program, "collate", crash)


def test_a_signal_keeps_what_is_under_way(
    server: Any, small_run: Build, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = (*ONE_BEHIND, "checkpoint.interval=100")
    whole = finish(small_run(tmp_path / "whole", *words))
    checks = iter(range(100))

    def interrupted(process: Any) -> None:
        if next(checks) == 2:
            raise InterruptedRunError(15)

    with monkeypatch.context() as patch:
        patch.setattr("rlx.run.process.Process.check", interrupted)
        with pytest.raises(InterruptedRunError):
            finish(small_run(tmp_path / "stopped", *words))
    assert (tmp_path / "stopped" / "checkpoints" / "step-2" / "trajectories" / "step-000003.jsonl").is_file()
    assert finish(small_run(tmp_path / "stopped", *words)) == whole


def test_staleness_of_two_with_evaluations_between(server: Any, small_run: Build, tmp_path: Path) -> None:
    words = (*ONE_BEHIND, "hardware.staleness=2")
    plain = finish(small_run(tmp_path / "plain", *words))
    assert [line["version/lag"] for line in plain] == [0, 1, 2, 2]
    judged = finish(small_run(tmp_path / "judged", *words, "evaluate.interval=1"))
    assert [{k: v for k, v in line.items() if not k.startswith("eval")} for line in judged] == plain
    assert any(name.startswith("eval/pass@") for name in judged[1])


def test_a_checkpoint_is_evaluated_on_servers_too(server: Any, small_run: Build, tmp_path: Path) -> None:
    run = small_run(tmp_path, *ONE_BEHIND, "steps=1")
    trained = train(run, QUIET).metrics
    again = evaluate_run(run, QUIET).metrics
    assert {name: figure for name, figure in again.items() if name.startswith("eval/")} == {
        name: figure for name, figure in trained.items() if name.startswith("eval/")
    }


def test_a_broken_rollout_ends_the_run_and_its_thread(server: Any, small_run: Build, tmp_path: Path) -> None:
    run = small_run(tmp_path, *ONE_BEHIND)

    def sample(context: Any) -> Any:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        train(replace(run, algo=replace(run.algo, sample=Sampler(num_episodes=1, grow=sample))), QUIET)
    assert json.loads((tmp_path / "summary.json").read_text())["status"] == "failed"
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("rollout")]


def test_a_curriculum_ahead_of_the_updates_repeats_and_survives_a_stop(
    server: Any, small_run: Build, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = ("env=mixture", *STEPS, "env.parts.first.env.max_rounds=1", "env.curriculum_floor=0.05")
    without = ("env", "steps", "checkpoint.interval", "algo.num_prompts")
    short = ("sampling.max_new_tokens=8", "evaluate=quick", "evaluate.num_tasks=2", "evaluate.max_new_tokens=8")

    def build(name: str) -> Any:
        return small_run(tmp_path / name, *words, *short, "algo.num_prompts=3", without=without)

    whole = finish(build("whole"))
    assert [line["version/lag"] for line in whole] == [0, 1, 1, 1]
    shares = [line["first/known/share"] for line in whole]
    assert shares[0] == 0.5
    assert len(set(shares)) == 4
    crash_in_update_of(monkeypatch, step=4)
    with pytest.raises(CrashError):
        finish(build("crashed"))
    monkeypatch.undo()
    monkeypatch.setenv("RLX_SERVERS", server.address)
    monkeypatch.setenv("RLX_SERVER_TOKEN", "s")
    assert finish(build("crashed")) == whole
