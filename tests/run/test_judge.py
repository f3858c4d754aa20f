"""The evaluation that ends a run: what it holds in memory, and who waits for whom."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from rlx.base.console import Screen
from rlx.env.countdown.countdown import Countdown
from rlx.hardware.interrupt import Interrupt
from rlx.hardware.ranks import ALONE
from rlx.run import trainee
from rlx.run.execution import Execution
from rlx.run.judge import floor_beside, in_turn
from rlx.run.process import Process
from rlx.runs.folder import RANKS
from rlx.training import train

Build = Callable[..., Any]
QUIET = Screen(silent=True)


def test_the_start_is_loaded_in_the_engine_s_dtype(
    small_run: Build, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RLX_CACHE", str(tmp_path / "cache"))
    load, dtypes = trainee.load_weights, set()

    def spy(*told: Any) -> Any:
        weights = load(*told)
        dtypes.update(tensor.dtype for tensor in weights.values())
        return weights

    monkeypatch.setattr(trainee, "load_weights", spy)
    train(small_run(tmp_path / "run", "steps=1", "hardware.dtype=bfloat16", without=("steps",)), QUIET)
    assert dtypes == {torch.bfloat16}


def test_processes_of_a_machine_load_one_after_another(small_run: Build, tmp_path: Path) -> None:
    (tmp_path / RANKS).mkdir()
    two = replace(ALONE, size=2)
    execution = Execution(run=small_run(tmp_path), process=Process(screen=QUIET, interrupt=Interrupt(), ranks=two))
    order: list[str] = []

    def other() -> None:
        with in_turn(execution):
            order.append("second")

    thread = threading.Thread(target=other)
    with in_turn(execution):
        thread.start()
        thread.join(0.2)
        order.append("first")
    thread.join(20)
    assert order == ["first", "second"]


class Stuck(Countdown):
    def start(self, task: Any) -> Any:
        raise RuntimeError("stuck")


def test_random_tries_that_fail_behind_a_training_leave_it_without_a_floor_and_say_so(
    small_run: Build, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = small_run(tmp_path)
    object.__setattr__(run, "env", Stuck())
    execution = Execution(run=run, process=Process(screen=Screen(), interrupt=Interrupt(), ranks=ALONE))
    assert floor_beside(execution) == {}
    assert "no random floor: env: a random try fails in task " in capsys.readouterr().err
