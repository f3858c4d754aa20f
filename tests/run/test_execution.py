"""What outlives a stage of a run, the run, and its failure: nothing."""

from __future__ import annotations

import gc
import os
import signal
import subprocess
import sys
import tempfile
import weakref
from collections.abc import Callable, Iterator
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pytest

from rlx.base.console import Screen
from rlx.cluster.check.remains import subtract
from rlx.hardware.interrupt import InterruptedRunError
from rlx.rollout.remote.engine import RemoteEngine
from rlx.run import trainee as trainees
from rlx.run.evaluation_player import EvaluationPlayer
from rlx.run.evaluation_run import evaluate_model
from rlx.run.execution import RunError
from rlx.run.run import WarmStart
from rlx.tool.python import Python, end_sandboxes
from rlx.training import train
from tests.errors import raises_naming
from tests.remains import present

Build = Callable[..., Any]
QUIET = Screen(silent=True)
WARM = ("warm_start=tool_sft", "warm_start.steps=2", "warm_start.algo.num_prompts=2", "steps=1")


class Census:
    """Who was born, and who of them lives."""

    def __init__(self) -> None:
        self.born: list[tuple[str, weakref.ref[Any]]] = []
        self.alive_at_birth: list[tuple[str, list[str]]] = []

    def add(self, kind: str, *parts: Any) -> None:
        self.born += [(kind, weakref.ref(part)) for part in parts]

    def alive(self) -> list[str]:
        return sorted(kind for kind, part in self.born if part() is not None)


@pytest.fixture
def census(monkeypatch: pytest.MonkeyPatch) -> Iterator[Census]:
    """Of learners and engines, while references alone are counted and no garbage is collected."""
    found = Census()
    learner_of, build_engine = trainees.learner_of, trainees.build_engine

    def learner(*told: Any) -> Any:
        found.alive_at_birth.append(("learner", found.alive()))
        made = learner_of(*told)
        found.add("learner", made, made.model, made.adam)
        return made

    def engine(*told: Any) -> Any:
        found.alive_at_birth.append(("engine", found.alive()))
        made = build_engine(*told)
        found.add("engine", made)
        return made

    monkeypatch.setattr(trainees, "learner_of", learner)
    monkeypatch.setattr(trainees, "build_engine", engine)
    gc.collect()
    gc.disable()
    monkeypatch.setattr(gc, "collect", lambda: 0)
    yield found
    gc.enable()


@pytest.mark.parametrize("words", [(), ("+model/lora=r32",)], ids=["whole", "adapters"])
def test_a_warm_start_s_learner_is_gone_before_the_run_s_is_made_and_one_engine_serves_both(
    words: tuple[str, ...], small_run: Build, tmp_path: Path, census: Census, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RLX_CACHE", str(tmp_path / "cache"))
    train(small_run(tmp_path / "run", *WARM, *words, without=("warm_start", "steps")), QUIET)
    three = ["learner"] * 3
    assert census.alive_at_birth == [("learner", []), ("engine", three), ("learner", ["engine"])]
    assert census.alive() == []


class TornError(RuntimeError):
    """What goes wrong on purpose."""


def tearing(env: Any, tear: Callable[[], None]) -> Any:
    """The environment, whose episodes begin with `tear`."""

    class Tearing(type(env)):  # type: ignore[misc]
        def start(self, task: Any) -> Any:
            tear()
            return super().start(task)

    return Tearing(**{field.name: getattr(env, field.name) for field in fields(env)})


def torn(*_: Any, **__: Any) -> Any:
    raise TornError("on purpose")


def finish(run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    train(run, QUIET)


def interrupt(run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    env = tearing(run.env, lambda: signal.raise_signal(signal.SIGTERM))
    with pytest.raises(InterruptedRunError):
        train(replace(run, env=env), QUIET)


def break_the_environment(run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    with raises_naming(RunError, "on purpose"):
        train(replace(run, env=tearing(run.env, torn), warm_start=WarmStart()), QUIET)


def break_the_evaluation(run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(EvaluationPlayer, "play_rest", torn)
    with pytest.raises(TornError):
        train(run, QUIET)


def break_the_update(run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("torch.optim.AdamW.step", torn)
    with pytest.raises(TornError):
        train(run, QUIET)


def break_the_rollout_ahead(run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(RemoteEngine, "step", torn)
    with pytest.raises(TornError):
        train(run, QUIET)


def only_evaluate(run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    evaluate_model(run, QUIET)


@pytest.fixture(scope="module", autouse=True)
def sandboxes_were_used() -> None:
    """The sandboxes' library has a runtime of its own from its first use in a process to the process's end."""
    Python().run("1")
    end_sandboxes()


@pytest.fixture
def scratch(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder for temporary files that nobody else writes to, and an empty cache."""
    folder = tmp_path_factory.mktemp("scratch")
    monkeypatch.setenv("TMPDIR", str(folder))
    monkeypatch.setattr(tempfile, "tempdir", None)
    monkeypatch.setenv("RLX_CACHE", str(tmp_path_factory.mktemp("cache")))
    return folder


AHEAD = ("hardware=cpu_async",)
ENDS = [
    (finish, ()),
    (finish, AHEAD),
    (interrupt, ()),
    (break_the_environment, ()),
    (break_the_environment, AHEAD),
    (break_the_rollout_ahead, AHEAD),
    (break_the_update, AHEAD),
    (break_the_evaluation, ()),
    (only_evaluate, ()),
]


@pytest.mark.parametrize(("end", "words"), ENDS, ids=lambda x: x.__name__ if callable(x) else "".join(x) or "here")
def test_nothing_outlives_a_run_however_it_ends(
    end: Any,
    words: tuple[str, ...],
    small_run: Build,
    tmp_path: Path,
    scratch: Path,
    census: Census,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    folder = tmp_path / "run"
    run = small_run(folder, *WARM, *words, without=("warm_start", "steps"))
    before = present(scratch)
    with monkeypatch.context() as patch:
        end(run, patch)
    assert census.alive() == []
    assert subtract(before, present(scratch, folder, Path(os.environ["RLX_CACHE"]))) == []


def test_nothing_outlives_a_server(scratch: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RLX_SERVER_TOKEN", "a" * 32)
    before = present(scratch)
    server = subprocess.Popen([sys.executable, "-m", "rlx", "serve"], stdout=subprocess.PIPE)
    with server:
        assert server.stdout is not None
        assert server.stdout.readline().startswith(b"127.0.0.1:")
        server.terminate()
        assert server.wait(60) == 0
    assert subtract(before, present(scratch)) == []


def test_what_is_left_is_told(scratch: Path) -> None:
    before = present(scratch)
    with open(scratch / "a", "w"), subprocess.Popen(["sleep", "60"]) as child:
        told = subtract(before, present(scratch))
        child.kill()
    assert told == [f"file: {scratch / 'a'}", f"open file: {scratch / 'a'}", f"process: sleep ({child.pid})"]
