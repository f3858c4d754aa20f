"""A saved configuration calls, imports and starts only what rlx ships or the user names on this command line."""

from __future__ import annotations

import ast
import inspect
import os
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

from rlx.cli import evaluate as rlx_eval
from rlx.cli import replay as rlx_replay
from rlx.settings.build import build_part
from rlx.settings.compose import ConfigError, compose
from rlx.settings.consent import marked_parameters
from rlx.settings.folders import is_user_project, list_targets, shipped_folder
from rlx.settings.saved import load_tree
from rlx.settings.signature import signature
from tests.errors import raises_naming

FOREIGN = {"_target_": "rlx.env.foreign.foreign.Foreign", "adapter": "rlx.env.foreign.gem", "task": "x"}


@cache
def base() -> dict[str, Any]:
    return compose([])


@pytest.fixture
def trap(tmp_path: Path) -> Path:
    """A program that leaves a file `sprung` when it is started."""
    path = tmp_path / "trap"
    path.write_text(f"#!/bin/sh\ntouch {tmp_path}/sprung\n")
    path.chmod(0o755)
    return path


def saved(folder: Path, **parts: Any) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.yaml").write_text(yaml.safe_dump(base() | parts))
    (folder / "trajectories").mkdir(exist_ok=True)
    return folder


def refused(folder: Path, name: str, *words: str) -> None:
    """A saved configuration is refused in one line that names this."""
    with raises_naming(ConfigError, name):
        load_tree(folder, words)


def nested(env: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Every place of a run in which an environment may stand, each with the parts that put it there."""
    default = base()
    yield "env", {"env": env}
    yield "warm_start.env", {"warm_start": default["warm_start"] | {"env": env}}
    lend = compose(["env=lend"])["env"]
    yield "env.env", {"env": lend | {"env": env}}
    mixture = compose(["env=mixture"])["env"]
    yield "env.parts.first.env", {"env": mixture | {"parts": {"first": mixture["parts"]["first"] | {"env": env}}}}
    yield "env.options.x", {"env": FOREIGN | {"options": {"x": env}}}


def test_a_saved_program_is_never_started(trap: Path, tmp_path: Path) -> None:
    for number, (place, parts) in enumerate(nested(FOREIGN | {"python": str(trap)})):
        folder = saved(tmp_path / f"run{number}", **parts)
        refused(folder, f"{place}.python={trap}")
        refused(folder, f"{place}.python=", "seed=1", f"+{place}.seconds=1")
    for command in (lambda: rlx_eval([f"run={tmp_path}/run0"]), lambda: rlx_replay(tmp_path / "run0", None)):
        with raises_naming(ConfigError, "env.python="):
            command()
    assert not (tmp_path / "sprung").exists()


def test_values_that_are_not_shipped_need_the_users_own_word(tmp_path: Path) -> None:
    for key, value in {"adapter": "antigravity", "package": "evil", "contained": False, "python": "sh"}.items():
        folder = saved(tmp_path / key, env=FOREIGN | {key: value})
        refused(folder, f"env.{key}=")
        typed = f"env.{key}={str(value).lower()}"
        assert load_tree(folder, [typed])["env"][key] == value
        assert load_tree(folder, ["env=countdown"])["env"] == base()["env"]
    tasks = {"_target_": "rlx.env.foreign.foreign.Taskset", "adapter": "rlx.env.foreign.verifiers", "contained": False}
    refused(saved(tmp_path / "task", env=tasks | {"task": "evil"}), "env.task=evil")
    own = {"task": "textarena", "options": {"harness": {"id": "evil"}}}
    refused(saved(tmp_path / "options", env=tasks | own), "env.options=")
    refused(tmp_path / "options", "env.options=", "env.options.split=train")
    shipped = compose(["env=verifiers", "protocol=answer", "algo=rloo"])["env"]
    assert load_tree(saved(tmp_path / "good", env=shipped))["env"] == shipped
    gem = compose(["env=gem", "env.task=other", "protocol=answer", "algo=rloo"])["env"]
    assert load_tree(saved(tmp_path / "gem", env=gem))["env"] == gem


def test_a_typed_reference_to_a_saved_value_is_no_consent(trap: Path, tmp_path: Path) -> None:
    folder = saved(tmp_path / "run", env=FOREIGN | {"python": str(trap), "form": str(trap)})
    refused(folder, "env.python=", "env.python=${env.form}")


def test_saved_text_refers_to_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SECRET", "found")
    for text in ("${oc.env:SECRET}", r"\${oc.env:SECRET}", r"a\\${seed}"):
        folder = saved(tmp_path / "run", track=base()["track"] | {"name": text})
        assert load_tree(folder, ["seed=3"])["track"]["name"] == text


def test_a_saved_tracker_sends_nothing_anywhere_without_the_users_own_word(tmp_path: Path) -> None:
    for key, value in {"mode": "online", "project": "theirs", "entity": "them"}.items():
        folder = saved(tmp_path / key, track=base()["track"] | {key: value})
        refused(folder, f"track.{key}={value}")
        assert load_tree(folder, tracks=False)["track"][key] == value
        assert load_tree(folder, [f"track.{key}={value}"])["track"][key] == value
    kept = base()["track"] | {"mode": "disabled", "group": "g", "episodes": 3}
    assert load_tree(saved(tmp_path / "kept", track=kept))["track"] == kept


STRANGER = "from rlx.env.countdown.countdown import Countdown\nopen({mark!r}, 'w')\nclass Cave(Countdown):\n    pass\n"


@pytest.fixture
def download(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A downloaded project: options, code and a run that calls it, for a user whose own project is elsewhere."""
    place = tmp_path / "download"
    (place / "conf" / "env").mkdir(parents=True)
    (place / "conf" / "env" / "cave.yaml").write_text("defaults: [countdown, _self_]\n_target_: stranger.Cave\n")
    (place / "conf" / "env" / "shell.yaml").write_text("_target_: os.system\ncommand: exit 1\n")
    (place / "stranger.py").write_text(STRANGER.format(mark=str(tmp_path / "sprung")))
    saved(place / "run", env=base()["env"] | {"_target_": "stranger.Cave"})
    saved(place / "shell", env={"_target_": "os.system", "command": f"touch {tmp_path}/sprung"})
    monkeypatch.delenv("RLX_CONF_DIR", raising=False)
    monkeypatch.delenv("PYTHONPATH", raising=False)
    return place


def test_options_that_came_with_a_run_allow_nothing(
    download: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From the parent, from within, through a link, and with import paths that follow the current folder."""
    (download / "run" / "conf").symlink_to(download / "conf")
    (tmp_path / "link").symlink_to(download / "run")
    for here, run in ((download, "run"), (download, "shell"), (download / "run", "."), (tmp_path / "link", ".")):
        monkeypatch.chdir(here)
        for path in (None, "", ".", "/nowhere:", ":/nowhere", "../.."):
            monkeypatch.setenv("PYTHONPATH", path) if path is not None else monkeypatch.delenv("PYTHONPATH", False)
            monkeypatch.setenv("RLX_CONF_DIR", "conf")
            refused(Path(run), "env._target_=")
            refused(Path(run), "env._target_=", "seed=1")
    assert not (tmp_path / "sprung").exists()


def test_a_run_that_holds_the_current_folder_does_not_trust_it(download: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(download / "run"))
    monkeypatch.chdir(download / "run")
    assert not is_user_project(Path(), Path())
    assert not is_user_project(download / "run", download)


def test_own_environments_work_from_their_project_folder(
    download: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As `rlx new` says: the project's folder is on PYTHONPATH."""
    monkeypatch.chdir(download)
    refused(Path("run"), "env._target_=stranger.Cave")
    assert not (tmp_path / "sprung").exists()
    monkeypatch.syspath_prepend(str(download))
    for words in (["env._target_=stranger.Cave"], ["-cd", "conf"]):
        assert load_tree(Path("run"), words)["env"]["_target_"] == "stranger.Cave"
    monkeypatch.setenv("PYTHONPATH", str(download))
    assert load_tree(Path("run"))["env"]["_target_"] == "stranger.Cave"
    with raises_naming(ConfigError, "env._target_=os.system"):
        build_part({"env": {"_target_": "os.system", "command": "exit 1"}}, "env")


MAKERS = """
from __future__ import annotations
from pathlib import Path
from rlx.types import Sampling
called = []
def number() -> int:
    called.append(1)
    return 1
def sampling() -> Sampling:
    called.append(2)
    return Sampling(max_context=8, max_new_tokens=4)
class Other:
    def __init__(self) -> None:
        called.append(3)
"""


def test_a_target_that_makes_something_else_is_not_called(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "makers.py").write_text(MAKERS)
    monkeypatch.syspath_prepend(str(tmp_path))
    import makers  # type: ignore[import-not-found]

    for key in ("env", "protocol", "algo", "model", "hardware", "evaluate", "warm_start"):
        for name in ("number", "sampling", "Other"):
            with raises_naming(ConfigError, f"{key}:", f"makers.{name} makes"):
                build_part({key: {"_target_": f"makers.{name}"}}, key)
    assert not makers.called
    assert build_part({"sampling": {"_target_": "makers.sampling"}}, "sampling").max_context == 8


STARTS = {"Popen", "import_module", "find_spec", "__import__", "system", "run_path", "spec_from_file_location", "forks"}
"""Functions that start a program or import a module by name."""
NAMES = {
    "python",
    "program",
    "binary",
    "command",
    "executable",
    "module",
    "adapter",
    "package",
    "plugin",
}


def test_every_shipped_parameter_that_names_code_needs_consent() -> None:
    """By its name, or because a method hands it to a function that starts or imports things."""
    found = {target: suspects(target) for target in list_targets([shipped_folder("conf")]) if target.startswith("rlx.")}
    assert {"python", "adapter"} <= found["rlx.env.foreign.foreign.Foreign"]
    for target, names in found.items():
        assert names <= set(marked_parameters(target)), target


def suspects(target: str) -> set[str]:
    module, _, name = target.rpartition(".")
    made = getattr(__import__(module, fromlist=[name]), name)
    parameters = set(inspect.signature(made).parameters)
    sources = [
        ast.parse(inspect.getsource(each).lstrip())
        for each in getattr(made, "__mro__", [made])[:-1]
        if getattr(each, "__module__", "").startswith("rlx.")
    ]
    handed = {part for tree in sources for part in handed_over(tree)}
    marked = signature(target).parameters
    texts = {key for key in NAMES & marked.keys() if (kind := marked[key].annotation) and kind.opened()[0] != "class"}
    return parameters & (handed | texts)


def handed_over(tree: ast.AST) -> Iterator[str]:
    """Attributes of `self`, and arguments, that reach a function of STARTS, by way of local names too."""
    for function in (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)):
        sources = {
            goal.id: names_in(node.value)
            for node in ast.walk(function)
            if isinstance(node, ast.Assign)
            for goal in node.targets
            if isinstance(goal, ast.Name)
        }
        for call in (node for node in ast.walk(function) if isinstance(node, ast.Call)):
            if ast.unparse(call.func).rpartition(".")[2] in STARTS:
                for name in {each for argument in call.args for each in names_in(argument)}:
                    yield from {name} | sources.get(name, set())


def names_in(tree: ast.AST) -> set[str]:
    return {
        node.attr if isinstance(node, ast.Attribute) else node.id
        for node in ast.walk(tree)
        if isinstance(node, (ast.Attribute, ast.Name))
    }


def test_no_option_of_hydra_loads_a_pickle(tmp_path: Path) -> None:
    from rlx.settings.compose import launch

    with raises_naming(ConfigError, "--experimental-rerun"):
        launch(["--experimental-rerun", str(tmp_path / "config.pickle")], lambda run: None)
    assert os.listdir(tmp_path) == []
