"""What a call made is what its key stands for, or one line says what it lacks."""

from __future__ import annotations

from itertools import product
from pathlib import Path

import pytest

from rlx.settings.check import check_value
from rlx.settings.compose import ConfigError, build_part, build_run, compose
from tests.errors import raises_naming
from tests.loops import for_each

OWN = """
from __future__ import annotations
from dataclasses import dataclass
from rlx.environment import Environment, Episode
from rlx.types import Step, Task, Text


@dataclass(frozen=True, kw_only=True)
class Maze({bases}):
    {rounds}

    def {tasks}(self, split, seed):
        return iter([Task(id=str(i), prompt=(Text("go"),), data={{}}) for i in range(99)])

    def start(self, task):
        return Maze()

    def step(self, action):
        return Step(done=True, success=True)

    def {cost}(self, tool):
        return 0.0

    def demonstrate(self, {demonstrated}):
        return ()


def make_maze():
    return Maze()


def fail():
    return {{}}["key"]
"""
WHOLE = {
    "bases": "Environment, Episode",
    "rounds": "max_rounds: int = 3",
    "cost": "tool_cost",
    "tasks": "tasks",
    "demonstrated": "task, seed, tools",
}


def own_words(folder: Path, target: str = "Maze", **changed: str) -> list[str]:
    """Words that choose an environment of one's own, written in `folder`."""
    name = f"maze_{abs(hash((target, *changed.items())))}"
    (folder / f"{name}.py").write_text(OWN.format(**(WHOLE | changed)))
    (folder / "env").mkdir(exist_ok=True)
    (folder / "env" / "maze.yaml").write_text(f"# A maze\n_target_: {name}.{target}\n")
    return ["-cd", str(folder), "env=maze"]


TEXT = ("protocol=answer", "algo=rloo")


@pytest.mark.parametrize("target", ["Maze", "make_maze"])
@pytest.mark.parametrize("changed", [{}, {"rounds": "size: int = 3"}, {"cost": "price"}])
def test_an_environment_of_ones_own_has_the_members_and_no_more(
    target: str, changed: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(tmp_path))
    run = build_run(compose([*own_words(tmp_path, target, **changed), *TEXT]), tmp_path)
    assert run.env.max_rounds == (None if "rounds" in changed else 3)


def test_algorithms_without_forced_entries_take_an_own_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(tmp_path))
    own = own_words(tmp_path)
    for algo in ("grpo", "tool_rloo", "rebn", "prompt_grpo"):
        assert build_run(compose([*own, f"algo={algo}"]), tmp_path)
    with raises_naming(ConfigError, "algo.space=expanded"):
        build_run(compose([*own, "algo=earl"]), tmp_path)
    with raises_naming(ConfigError, "algo forces"):
        build_run(compose([*own, "algo=cpo"]), tmp_path)


@pytest.mark.parametrize(
    ("target", "changed", "names"),
    [
        ("Maze", {"tasks": "problems"}, ("env:", "Maze", "no tasks", "Environment")),
        ("make_maze", {"tasks": "problems"}, ("env:", "Maze", "tasks")),
        ("Maze", {"bases": "Episode"}, ("env:", "makes Maze", "class Maze(Environment)")),
        ("make_maze", {"bases": "Episode"}, ("env:", "make_maze makes Maze", "Environment")),
        ("Maze", {"rounds": "curriculum: str = 'algebra'"}, ("Maze.curriculum", "'algebra'")),
        ("Maze", {"rounds": "components: int = 3"}, ("Maze.components", 3)),
        ("Maze", {"rounds": "max_rounds: str = '3'"}, ("Maze.max_rounds", "'3'")),
        ("Maze", {"rounds": "def max_rounds(self): return 3"}, ("Maze.max_rounds", "method")),
        ("Maze", {"rounds": "tools: tuple = ('python',)"}, ("Maze.tools", "('python',)", "(Verb(…),)")),
        ("Maze", {"rounds": "pace: str = 'slowly'"}, ("Maze.pace", "'slowly'", "inline", "ticks", "live")),
        ("Maze", {"rounds": "max_rounds: int = -1"}, ("env.max_rounds=-1",)),
        ("Maze", {"demonstrated": "task"}, ("Maze.demonstrate", "(task, seed, tools)")),
        ("fail", {}, ("env:", "fail", "KeyError: 'key'")),
        ("nothing", {}, ("'nothing'",)),
    ],
)
def test_what_an_environment_of_ones_own_lacks_is_named(
    target: str, changed: dict[str, str], names: tuple[object, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(tmp_path))
    with raises_naming(ConfigError, *names):
        build_run(compose([*own_words(tmp_path, target, **changed), *TEXT]), tmp_path)


def test_tools_that_are_no_verbs_are_named_where_they_choose_the_protocol(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(tmp_path))
    with raises_naming(ConfigError, "Maze.tools", "('python',)", "Verb"):
        build_run(compose(own_words(tmp_path, "Maze", rounds="tools: tuple = ('python',)")), tmp_path)


KINDS = ("env", "protocol", "algo", "model", "hardware", "sampling", "evaluate", "track", "checkpoint", "warm_start")


@for_each("key, target", product(KINDS, ["os.getcwd", "rlx.types.ToolUse"]))
def test_every_key_refuses_what_makes_something_else(key: str, target: str) -> None:
    with raises_naming(ConfigError, f"{key}._target_={target}" if target == "os.getcwd" else f"{key}:"):
        build_part({key: {"_target_": target}}, key)


def test_what_a_call_inside_another_makes_is_checked_too() -> None:
    tree = compose([])
    wrong = {**tree["algo"], "optimizer": {"_target_": "rlx.types.Sampling"}}
    with raises_naming(ConfigError, "algo.optimizer:", "makes Sampling", "Optimizer"):
        build_part({"algo": wrong}, "algo")


def test_a_parents_fields_are_read_where_the_parent_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    head = "from dataclasses import dataclass\n"
    kind = 'from typing import Literal\nKind = Literal["a", "b"]\n\n@dataclass\nclass Parent:\n    kind: Kind = "a"\n'
    child = "from kind_of_parent import Parent\n\n@dataclass\nclass Child(Parent):\n    size: int = 0\n"
    (tmp_path / "kind_of_parent.py").write_text(head + kind)
    (tmp_path / "kind_of_child.py").write_text(head + child)
    monkeypatch.syspath_prepend(str(tmp_path))
    check_value({"_target_": "kind_of_child.Child", "kind": "b", "size": 1}, "env")
    with raises_naming(ConfigError, "env.kind=c", "a, b"):
        check_value({"_target_": "kind_of_child.Child", "kind": "c"}, "env")
