"""A resumed run names what has changed since its checkpoint, and keeps the warnings and the cost of its past."""

from __future__ import annotations

import importlib
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import rlx.training
from rlx.evaluation.compare import find_gains
from rlx.run.execution import Execution, RunError
from rlx.run.stored_evaluation import evaluation_key
from rlx.run.warm import start_digest
from rlx.runs import provenance
from rlx.training import train
from tests.errors import raises_naming
from tests.run.test_data import QUIET

Build = Callable[..., Any]
TOY = """
import yaml
from rlx.env.countdown.countdown import Countdown

class Toy(Countdown):
    bonus = 0
"""
WARM = ("warm_start=tool_sft", "warm_start.steps=1", "warm_start.extend=0", "warm_start.algo.num_prompts=1")


@pytest.fixture
def toy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file of a user's environment."""
    file = tmp_path / "toy_game.py"
    file.write_text(TOY)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(importlib.sys.modules, "toy_game", raising=False)
    return file


def read(folder: Path, name: str = "summary.json") -> Any:
    return json.loads((folder / name).read_text())


def test_an_environment_edited_between_two_starts_is_named_and_needs_a_word(
    tmp_path: Path, toy: Path, small_run: Build
) -> None:
    folder, words = tmp_path / "run", ("env._target_=toy_game.Toy",)
    train(small_run(folder, *words, "steps=1"), QUIET)
    toy.write_text(TOY.replace("0", "5"))
    longer = (*words, "steps=2")
    with raises_naming(RunError, "step-1", "toy_game", "checkpoint.accept=") as error:
        train(small_run(folder, *longer), QUIET)
    assert read(folder)["steps"] == 1, "the files of the run are as they were"
    accepted = re.search(r"checkpoint\.accept=\w+", str(error.value))
    assert accepted is not None
    with raises_naming(RunError, "step-1", "checkpoint.accept="):
        train(small_run(folder, *longer, "checkpoint.accept=0123456789abcdef"), QUIET)
    train(small_run(folder, *longer, accepted.group()), QUIET)
    summary = read(folder)
    assert summary["steps"] == 2
    assert any("toy_game" in warning for warning in summary["warnings"])
    toy.write_text(TOY.replace("0", "6"))
    with raises_naming(RunError, "step-2", "toy_game", "checkpoint.accept="):
        train(small_run(folder, *words, "steps=3", accepted.group()), QUIET)


def test_an_upgraded_package_misses_the_cache(
    tmp_path: Path, toy: Path, small_run: Build, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = small_run(tmp_path / "run", "env._target_=toy_game.Toy", *WARM, without=("warm_start",))
    before, version_of = (start_digest(run), evaluation_key(run, 0)), provenance.version_of
    monkeypatch.setattr(provenance, "version_of", lambda name: "9.9" if name == "pyyaml" else version_of(name))
    assert start_digest(run) != before[0]
    assert evaluation_key(run, 0) != before[1]


def test_compared_runs_of_different_code_are_named(tmp_path: Path, toy: Path, small_run: Build) -> None:
    for name, text in (("first", TOY), ("second", TOY.replace("0", "5"))):
        toy.write_text(text)
        train(small_run(tmp_path / name, "env._target_=toy_game.Toy", "steps=1"), QUIET)
    [gain] = find_gains(tmp_path / "first", tmp_path / "second")
    assert gain.conflicts == ("code of toy_game",)
    assert all(not gain.conflicts for gain in find_gains(tmp_path / "first"))


def test_a_resumed_run_keeps_its_warnings(tmp_path: Path, small_run: Build, monkeypatch: pytest.MonkeyPatch) -> None:
    def warn(execution: Execution) -> None:
        execution.warn("test tasks are training tasks")

    with monkeypatch.context() as patch:
        patch.setattr(rlx.training, "rehearse", warn)
        train(small_run(tmp_path, "steps=1"), QUIET)
    train(small_run(tmp_path, "steps=2"), QUIET)
    assert read(tmp_path)["warnings"].count("test tasks are training tasks") == 1


def test_a_run_that_is_killed_in_its_warm_start_keeps_its_warnings_and_cost(
    tmp_path: Path, small_run: Build, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RLX_CACHE", str(tmp_path / "cache"))
    folder = tmp_path / "run"
    run = small_run(folder, "steps=1", *WARM, without=("steps", "warm_start"))

    def warn(execution: Execution) -> None:
        execution.warn("test tasks are training tasks")

    def die(*_: Any) -> None:
        raise MemoryError

    with monkeypatch.context() as patch:
        patch.setattr(rlx.training, "rehearse", warn)
        patch.setattr(rlx.training, "try_out", die)
        with pytest.raises(MemoryError):
            train(run, QUIET)
    (folder / "summary.json").unlink()  # a process that is killed writes none
    beginning = read(folder, "run.json")
    assert beginning["warnings"] == ["test tasks are training tasks"]
    assert 0 < beginning["cost"]["seconds"] < 1000
    (folder / "run.json").write_text(json.dumps(beginning | {"cost": beginning["cost"] | {"seconds": 1000.0}}))
    train(run, QUIET)
    summary = read(folder)
    assert summary["cost"]["seconds"] > 1000
    assert "test tasks are training tasks" in summary["warnings"]
