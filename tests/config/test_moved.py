"""Configurations from before code moved: their old names still name it."""

from __future__ import annotations

import importlib
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from rlx.config.check import ConfigError
from rlx.config.compose import compose
from rlx.config.saved import load_tree
from rlx.record.folder import FolderError, claim_config, read_config
from rlx.record.moved import MOVED, MOVED_KEYS
from tests.errors import raises_naming

ROOT = Path(__file__).resolve().parents[2]
OLD_NAMES = {new: old for old, new in MOVED.items()}


def with_old_names(tree: Any) -> Any:
    """Write a configuration as it was before code moved."""
    text = json.dumps(tree)
    for new, old in OLD_NAMES.items():
        text = text.replace(f'"{new}"', f'"{old}"')
    return json.loads(text)


def store(folder: Path, tree: dict[str, Any]) -> Path:
    folder.mkdir(exist_ok=True)
    (folder / "config.yaml").write_text(yaml.safe_dump(with_old_names(tree)))
    return folder


def test_every_present_name_is_there_and_has_not_moved_again() -> None:
    for new in MOVED.values():
        assert new not in MOVED
        module, _, last = new.rpartition(".")
        assert (ROOT / f"{new.replace('.', '/')}.py").is_file() or hasattr(importlib.import_module(module), last)


OPTIONS = (
    ["env=countdown"],
    ["env=[countdown,game/guess_the_number]"],
    ["env=sorting_curriculum"],
    ["env=calc_bench"],
    ["env=lend_search"],
    ["env=gem", "env.task=game:GuessTheNumber-v0"],
)


@pytest.mark.parametrize("words", OPTIONS, ids=lambda words: words[0])
def test_an_old_folder_is_read_with_present_names(tmp_path: Path, words: list[str]) -> None:
    tree = compose(words)
    folder = store(tmp_path / "run", tree)
    assert any(f" {old}\n" in (folder / "config.yaml").read_text() for old in MOVED)
    assert read_config(folder) == tree
    assert load_tree(folder) == tree


def test_the_claim_of_a_folder_takes_an_old_and_a_new_name_as_equal(tmp_path: Path) -> None:
    tree = compose(["env=countdown"])
    folder = store(tmp_path / "run", tree)
    with raises_naming(FolderError, "seed: 0 -> 1"):
        claim_config(folder, tree | {"seed": 1})
    claim_config(folder, tree)
    assert yaml.safe_load((folder / "config.yaml").read_text()) == tree


def test_old_names_of_a_command_line_and_of_a_users_options_are_understood(tmp_path: Path) -> None:
    present = compose(["env=countdown"])["env"]
    assert compose(["env=countdown", "env._target_=rlx.env.countdown.Countdown"])["env"] == present
    (tmp_path / "env").mkdir()
    text = "# Mine\n_target_: rlx.env.qa.QA\nnum_test: 7\n"
    (tmp_path / "env" / "mine.yaml").write_text(text)
    tree = compose(["env=mine", "-cd", str(tmp_path)])
    assert tree["env"]["_target_"] == "rlx.env.questions.qa.QA"
    assert load_tree(store(tmp_path / "run", tree), config_dir=tmp_path) == tree


BOXED = ["env=game/guess_the_number", "protocol=boxed"]


def with_old_keys(tree: Any) -> Any:
    """Write a configuration as it was before keys moved; no other key has their names."""
    text = json.dumps(tree)
    for keys in MOVED_KEYS.values():
        for old, new in keys.items():
            text = text.replace(f'"{new}":', f'"{old}":')
    return json.loads(text)


@pytest.mark.parametrize(
    "words", [BOXED, ["env=[countdown,sorting_any]", "+protocol@env.parts.countdown.protocol=boxed"]]
)
def test_an_old_folder_is_read_with_present_keys(tmp_path: Path, words: list[str]) -> None:
    tree = compose(words)
    old = with_old_keys(tree)
    assert '"said"' in json.dumps(old)
    (tmp_path / "config.yaml").write_text(yaml.safe_dump(old))
    assert read_config(tmp_path) == load_tree(tmp_path) == tree


def test_an_old_key_of_a_command_line_is_understood(tmp_path: Path) -> None:
    present = compose([*BOXED, "protocol.own_turns=false"])
    assert present["protocol"]["own_turns"] is False
    assert compose([*BOXED, "protocol.said=false"]) == present
    assert load_tree(store(tmp_path / "run", compose(BOXED)), ["protocol.said=false"]) == present


def test_an_old_key_of_a_users_option_is_refused_with_its_present_name(tmp_path: Path) -> None:
    (tmp_path / "protocol").mkdir()
    text = "# Mine\n_target_: rlx.protocol.boxed.Boxed\nsaid: false\n"
    (tmp_path / "protocol" / "mine.yaml").write_text(text)
    with raises_naming(ConfigError, "protocol.said", "protocol.own_turns"):
        compose(["env=game/guess_the_number", "protocol=mine", "-cd", str(tmp_path)])


def test_an_adapter_of_an_old_folder_is_trusted_as_the_shipped_one(tmp_path: Path) -> None:
    tree = compose(["env=gem", "env.task=game:GuessTheNumber-v0"])
    folder = store(tmp_path / "run", tree)
    assert "adapter: rlx.env.adapter.gem\n" in (folder / "config.yaml").read_text()
    assert load_tree(folder)["env"]["adapter"] == "rlx.env.foreign.gem"


@pytest.fixture
def old_run(run_copy: Path, small_words: tuple[str, ...]) -> Path:
    """A finished run from before code moved, with an old name in its command too."""
    store(run_copy, yaml.safe_load((run_copy / "config.yaml").read_text()))
    words = [*small_words, "steps=2", "env._target_=rlx.env.countdown.Countdown"]
    (run_copy / "command.json").write_text(json.dumps({"words": words}))
    return run_copy


def test_every_command_works_on_an_old_folder(old_run: Path, tmp_path: Path, rlx_here: Callable[..., Any]) -> None:
    other = shutil.copytree(old_run, tmp_path / "other")
    commands = (
        ("show", str(old_run), "1"),
        ("replay", str(old_run)),
        ("compare", str(old_run), str(other)),
        ("status", str(old_run)),
        ("resume", str(old_run), "steps=3"),
        ("eval", f"run={other}", "evaluate.num_samples=1", "evaluate.ks=[1]", "evaluate.untrained=false"),
    )
    for words in commands:
        done = rlx_here(*words)
        assert done.returncode == 0, (words, done.stderr)
    assert json.loads((old_run / "summary.json").read_text())["steps"] == 3
    assert read_config(old_run)["env"]["_target_"] == "rlx.env.countdown.countdown.Countdown"
