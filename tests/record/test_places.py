"""A run is made in a folder that is new, empty or its own, and nowhere else."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from rlx.runs.folder import FolderError, open_folder, refuse_place
from rlx.runs.lock import STALE, HeldError, hold, read_holder
from rlx.settings.compose import ConfigError, compose, launch
from tests.errors import raises_naming
from tests.loops import for_each


@pytest.mark.parametrize("name", ["metrics.jsonl", "trajectories", ".git"])
def test_a_folder_of_something_else_is_refused_and_stays(tmp_path: Path, name: str) -> None:
    (tmp_path / name).mkdir() if name in ("trajectories", ".git") else (tmp_path / name).write_text("mine")
    with raises_naming(FolderError, tmp_path, name), open_folder(tmp_path, {"seed": 0}):
        pass
    with raises_naming(FolderError, tmp_path, "hydra.run.dir"):
        launch([f"hydra.run.dir={tmp_path}", "steps=1"], lambda run: None)
    with raises_naming(FolderError, tmp_path, "hydra.run.dir"):
        compose([f"hydra.run.dir={tmp_path}"], writes=True)
    assert os.listdir(tmp_path) == [name]


def test_the_current_folder_is_refused_where_it_is_a_project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "results.md").write_text("mine")
    monkeypatch.chdir(tmp_path)
    with raises_naming(FolderError, "results.md"):
        launch(["hydra.run.dir=.", "steps=1"], lambda run: None)


def test_a_run_killed_before_its_configuration_was_written_begins_again(tmp_path: Path) -> None:
    for name in (".hydra", "logs", "ranks"):
        (tmp_path / name).mkdir()
    for name in (".lock", "log.txt", ".config.yaml.0a1b2c3d.part"):
        (tmp_path / name).write_text("")
    with open_folder(tmp_path, {"seed": 0}) as folder:
        assert (folder / "config.yaml").exists()
    (tmp_path / "results.md").write_text("of the run")
    with open_folder(tmp_path, {"seed": 0}):
        pass


def test_places_that_can_be_no_folder_are_mistakes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "nothing")
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    (tmp_path / "file").write_text("")
    for place in ("link", "loop", "file", "file/run", "x" * 300, "link/run"):
        with raises_naming(FolderError, "another place") as caught:
            refuse_place(tmp_path / place)
        assert caught.value.exit_code == 2
    monkeypatch.setattr(os, "access", lambda path, mode: False)  # as of a read-only file system, for root too
    with raises_naming(FolderError, tmp_path, "written"):
        refuse_place(tmp_path / "run")


@for_each("word", ["hydra.run.dir=", "--config-name=x", "--config-path=/tmp", "--experimental-rerun=x"])
def test_a_plan_refuses_the_words_that_training_refuses(word: str) -> None:
    for command in (lambda: compose([word]), lambda: launch([word], lambda run: None)):
        with raises_naming(ConfigError, word.partition("=")[0]):
            command()


def test_a_lock_from_the_future_holds_nobody_off(tmp_path: Path) -> None:
    path = tmp_path / ".lock"
    path.write_text('{"host": "elsewhere", "pid": 1, "job": ""}')
    with raises_naming(HeldError, "elsewhere"), hold(path):
        pass
    later = time.time() + STALE + 36_000
    os.utime(path, (later, later))
    with hold(path):
        pass


@pytest.mark.parametrize("job", ["1\0x", "--help", "1 2", "x" * 100, "../1"])
def test_a_lock_names_no_job_that_is_no_number(tmp_path: Path, job: str) -> None:
    import json

    (tmp_path / ".lock").write_text(json.dumps({"host": "a", "pid": 1, "job": job}))
    assert read_holder(tmp_path / ".lock")["job"] == ""
    (tmp_path / ".lock").write_text(json.dumps({"host": "a", "pid": 1, "job": "123_4"}))
    assert read_holder(tmp_path / ".lock")["job"] == "123_4"
