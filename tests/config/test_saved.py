"""The configuration in a run's folder: given back, changed by words, and trusted as far as files here name it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from rlx.cli import evaluate as rlx_eval
from rlx.cli import replay as rlx_replay
from rlx.cli import serve as rlx_serve
from rlx.evaluation.evaluate import EvaluateError
from rlx.rollout.remote.link import ServerError
from rlx.runs.store import StoreError
from rlx.settings.compose import ConfigError, compose
from rlx.settings.saved import load_tree
from tests.errors import raises_naming


def test_a_run_folder_gives_its_configuration_back_with_overrides(tmp_path: Path) -> None:
    tree = compose(["seed=4"])
    write(tmp_path, tree)
    assert load_tree(tmp_path) == tree
    changed = load_tree(tmp_path, ["evaluate=quick", "env.max_rounds=5"])
    assert changed["env"]["max_rounds"] == 5
    assert changed["evaluate"] == compose(["evaluate=quick"])["evaluate"]
    assert changed["seed"] == 4
    with raises_naming(ConfigError, "'env.max_round'", "unknown"):
        load_tree(tmp_path, ["env.max_round=5"])
    several = ["env=[countdown,game/guess_the_number]"]
    assert load_tree(tmp_path, several)["env"] == compose(several)["env"]


def write(folder: Path, tree: dict[str, Any]) -> None:
    folder.mkdir(exist_ok=True)
    (folder / "config.yaml").write_text(yaml.safe_dump(tree))


def test_a_strangers_run_folder_cannot_call_what_no_config_file_names(tmp_path: Path) -> None:
    write(tmp_path, compose([]) | {"env": {"_target_": "os.system", "command": "true"}})
    with raises_naming(ConfigError, "os.system", "-cd DIR", "env._target_=os.system"):
        load_tree(tmp_path)
    with raises_naming(ConfigError, "config.yaml"):
        load_tree(tmp_path / "nothing")


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Path, Path]:
    """A run with an environment that only the options in a folder name, and that folder."""
    (tmp_path / "my_cave.py").write_text(
        "from rlx.env.countdown.countdown import Countdown\nfrom dataclasses import dataclass\n"
        "@dataclass(frozen=True, kw_only=True)\nclass Cave(Countdown):\n    width: int = 3\n"
    )
    options = tmp_path / "options"
    (options / "env").mkdir(parents=True)
    (options / "env" / "cave.yaml").write_text("defaults: [countdown, _self_]\n_target_: my_cave.Cave\nwidth: 3\n")
    (options / "env" / "wide.yaml").write_text("defaults: [cave, _self_]\nwidth: 9\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    write(tmp_path / "run", compose(["env=cave", "-cd", str(options)]))
    return tmp_path / "run", options


def test_a_folder_of_options_named_once_more_is_trusted_and_chosen_from(own: tuple[Path, Path]) -> None:
    run, options = own
    with raises_naming(ConfigError, "my_cave.Cave"):
        load_tree(run)
    assert load_tree(run, config_dir=options)["env"]["width"] == 3
    assert load_tree(run, ["env=wide", "--config-dir", str(options), "seed=2"])["env"]["width"] == 9
    with raises_naming(ConfigError, options / "none", "-cd"):
        load_tree(run, ["-cd", str(options / "none")])


def test_commands_on_a_run_take_its_folder_of_options(own: tuple[Path, Path]) -> None:
    run, options = own
    with raises_naming(EvaluateError, run, "checkpoint"):
        rlx_eval([f"run={run}", "-cd", str(options)])
    with raises_naming(StoreError, run, "trajectories"):
        rlx_replay(run, config_dir=options)


def test_a_server_needs_no_word_of_what_it_does_not_serve(
    own: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("RLX_SERVER_TOKEN", raising=False)
    assert set(load_tree(own[0], parts=("model", "hardware"))) == {"model", "hardware"}
    with raises_naming(ServerError, "RLX_SERVER_TOKEN"):
        rlx_serve([f"run={own[0]}"])


@pytest.mark.parametrize("option", ["--multirun", "--cfg=job"])
def test_other_options_are_refused(tmp_path: Path, option: str) -> None:
    with raises_naming(ConfigError, option.partition("=")[0], "run=DIR"):
        load_tree(tmp_path, [option])


@pytest.mark.parametrize(("old", "new"), [("num_test: ", "num_tests: "), ("countdown.countdown.", "countdown.")])
def test_a_run_of_another_version_says_so_in_one_line(tmp_path: Path, old: str, new: str) -> None:
    write(tmp_path, compose(["env=countdown"]))
    stored = tmp_path / "config.yaml"
    stored.write_text(stored.read_text().replace(old, new, 1))
    with raises_naming(ConfigError, stored, "another version", "summary.json"):
        load_tree(tmp_path)
