"""What a run reads from outside: a folder or file of nonsense is refused by name, before anything is made."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from rlx.cli import plan
from rlx.model.load import SHIPPED
from rlx.model.problem import ModelError
from rlx.plan.inputs import CacheError, check_inputs
from rlx.plan.prospect import Prospect
from rlx.run.inputs import fetch_inputs, list_inputs
from tests.errors import raises_naming

Build = Callable[..., Any]
NANO = SHIPPED / "nano"


def copy_nano(folder: Path) -> Path:
    return Path(shutil.copytree(NANO, folder))


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-100])


def emptied(path: Path) -> None:
    path.write_bytes(b"")


def binary(path: Path) -> None:
    path.write_bytes(bytes(range(256)) * 4)


def other_json(path: Path) -> None:
    path.write_text("[1, 2]")


def a_folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


DAMAGES = [cut, emptied, binary, other_json, a_folder]


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("name", ["config.json", "tokenizer.json", "model.safetensors", "generation_config.json"])
def test_a_damaged_model_folder_is_refused_by_plan_and_train_alike(
    small_run: Build, tmp_path: Path, name: str, damage: Callable[[Path], None]
) -> None:
    folder = copy_nano(tmp_path / "model")
    damage(folder / name)
    with raises_naming(ModelError, folder / name) as caught:
        check_inputs(Prospect(run=small_run(tmp_path, f"model.path={folder}")))
    assert "\n" not in str(caught.value)
    with raises_naming(ModelError, folder / name):
        plan([f"model.path={folder}"])


@pytest.mark.parametrize("name", ["config.json", "tokenizer.json", "model.safetensors"])
def test_what_a_model_folder_lacks_is_named(small_run: Build, tmp_path: Path, name: str) -> None:
    folder = copy_nano(tmp_path / "model")
    (folder / name).unlink()
    with raises_naming(ModelError, f"model.path={folder}"):
        check_inputs(Prospect(run=small_run(tmp_path, f"model.path={folder}")))


def test_an_index_of_weights_names_files_beside_it_alone(small_run: Build, tmp_path: Path) -> None:
    folder = copy_nano(tmp_path / "model")
    (folder / "model.safetensors").unlink()
    index = {"weight_map": {"a": "../../secret.safetensors"}}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    with raises_naming(ModelError, folder / "secret.safetensors"):
        check_inputs(Prospect(run=small_run(tmp_path, f"model.path={folder}")))


@pytest.mark.parametrize("path", ["/nonexistent", "./nowhere", "nowhere"])
def test_plan_refuses_a_model_that_is_not_there(path: str) -> None:
    with raises_naming(ModelError, f"model.path={path}", "folder"):
        plan([f"model.path={path}"])


@pytest.mark.parametrize("text", [None, '{"question": 1}\n', "not json\n", '{"nums": [1, 1], "target": 3}\n'])
def test_plan_refuses_a_data_set_without_problems(tmp_path: Path, text: str | None) -> None:
    path = tmp_path / "rows.jsonl"
    if text is not None:
        path.write_text(text)
    with raises_naming(ValueError, f"env.hub={path}"):
        plan(["env=countdown_hub", f"env.hub={path}"])


@pytest.mark.parametrize("place", [".", "warm", "evaluations", "models"])
def test_a_file_where_the_cache_should_be_is_named(
    small_run: Build, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    cache = tmp_path / "cache"
    monkeypatch.setenv("RLX_CACHE", str(cache))
    path = cache / place
    path.parent.mkdir(exist_ok=True)
    path.write_text("")
    with raises_naming(CacheError, cache / place, "file"):
        check_inputs(Prospect(run=small_run(tmp_path)))


def test_what_a_run_reads_is_fetched_and_told_with_its_folder(
    small_run: Build, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[tuple[str, str]] = []

    def snapshot(name: str, kind: str, *rest: object) -> Path:
        asked.append((name, kind))
        return tmp_path / kind

    monkeypatch.setattr("rlx.run.inputs.snapshot", snapshot)
    run = small_run(tmp_path)
    assert list_inputs(run) == [f"model    nano: {NANO}"]
    run = replace(run, model=replace(run.model, path="owner/name"))
    fetch_inputs(run)
    assert asked == [("owner/name", "model")]
    assert list_inputs(run) == [f"model    owner/name: {tmp_path / 'model'}"]
