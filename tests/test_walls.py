"""Who may look into whom: the import walls of docs/architecture.md, held by walking the syntax trees."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
FILES = sorted((ROOT / "rlx").rglob("*.py"))
HEAVY = {"torch", "transformers", "peft", "deepspeed", "vllm", "wandb"}

FORBIDDEN = {
    "rlx/limits.py": {"rlx", *HEAVY},
    "rlx/types.py": HEAVY,
    "rlx/env": {"rlx.algo", "rlx.model", "rlx.rollout", "rlx.learner", "rlx.evaluate", "rlx.train", *HEAVY},
    "rlx/tool": {"rlx.env", "rlx.algo", "rlx.model", "rlx.rollout", "rlx.learner", "rlx.evaluate", "rlx.train", *HEAVY},
    "rlx/protocol": {"rlx.algo", "rlx.model", "rlx.rollout", "rlx.learner", "rlx.evaluate", "rlx.train", *HEAVY},
    "rlx/algo": {
        "rlx.env",
        "rlx.rollout",
        "rlx.learner",
        "rlx.evaluate",
        "rlx.train",
        "transformers",
        "deepspeed",
        "vllm",
    },
    "rlx/model": {"rlx.algo", "rlx.rollout", "rlx.learner", "rlx.evaluate", "rlx.train"},
    "rlx/rollout": {"rlx.learner", "rlx.evaluate", "rlx.train"},
    "rlx/learner": {"rlx.rollout", "rlx.evaluate", "rlx.train"},
    "rlx/evaluate": {"rlx.train"},
}
"""What the files below a path never import."""

ALONE = {
    "vllm": "rlx/rollout/vllm.py",
    "deepspeed": "rlx/learner/deepspeed.py",
    "wandb": "rlx/track.py",
    "typer": "rlx/cli",
}
"""Packages that one file imports, or those whose names begin so, and no other."""

CONFIG = {
    "rlx/config.py",
    "rlx/config_build.py",
    "rlx/config_check.py",
    "rlx/config_folders.py",
    "rlx/config_keys.py",
    "rlx/config_made.py",
    "rlx/config_words.py",
}
ABOVE_CONFIG = {
    *CONFIG,
    "rlx/cli.py",
    "rlx/cli_look.py",
    "rlx/plan.py",
    "rlx/doctor.py",
    "rlx/guide.py",
    "rlx/suit.py",
    "rlx/objective.py",
    "rlx/selftest.py",
    "rlx/keys.py",
    "rlx/new.py",
    "rlx/completion.py",
}


def name_of(file: Path) -> str:
    return file.relative_to(ROOT).as_posix()


def imports(file: Path) -> Iterator[str]:
    """Every module a file imports, wherever in it, less those that only a type checker sees."""
    tree = ast.parse(file.read_text())
    checked = {
        id(n) for node in ast.walk(tree) if is_type_checking(node) for child in node.body for n in ast.walk(child)
    }
    for node in ast.walk(tree):
        if id(node) in checked:
            continue
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert not node.level, f"{name_of(file)}:{node.lineno}: imports are absolute"
            yield node.module or ""
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def is_type_checking(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and ast.unparse(node.test) in ("TYPE_CHECKING", "typing.TYPE_CHECKING")


def is_below(name: str, folder: str) -> bool:
    return name == folder or name.startswith(folder + "/")


def is_of(module: str, package: str) -> bool:
    return module == package or module.startswith(package + ".")


@pytest.mark.parametrize("file", FILES, ids=name_of)
def test_imports_go_one_way(file: Path) -> None:
    for folder, packages in FORBIDDEN.items():
        if is_below(name_of(file), folder):
            broken = {module for module in imports(file) for package in packages if is_of(module, package)}
            assert not broken, f"{name_of(file)} imports {sorted(broken)}"


def test_what_flows_stands_on_limits_alone() -> None:
    used = {module for module in imports(ROOT / "rlx/types.py") if is_of(module, "rlx")}
    assert {module.split(".")[1] for module in used} <= {"limits"}


@pytest.mark.parametrize(("package", "owner"), ALONE.items())
def test_one_file_imports_it(package: str, owner: str) -> None:
    users = {name_of(file) for file in FILES for module in imports(file) if is_of(module, package)}
    assert all(user.startswith(owner) for user in users)


def test_only_the_configuration_knows_hydra() -> None:
    users = {
        name_of(file) for file in FILES for module in imports(file) if module.split(".")[0] in ("hydra", "omegaconf")
    }
    assert users <= {"rlx/config.py", "rlx/config_words.py"}


def test_only_the_command_line_looks_into_the_configuration() -> None:
    users = {
        name_of(file) for file in FILES for module in imports(file) if is_of(module.replace("_", "."), "rlx.config")
    }
    assert users <= ABOVE_CONFIG


@pytest.mark.parametrize(
    "module", ["rlx.env.countdown", "rlx.tool.python", "rlx.protocol.tags", "rlx.types", "rlx.cli"]
)
def test_text_and_values_load_no_torch(module: str) -> None:
    """Also through what they import in turn."""
    import subprocess
    import sys

    code = f"import sys, {module}; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], cwd=ROOT, timeout=60).returncode == 0


def test_no_choice_is_made_by_the_name_of_an_environment_or_algorithm() -> None:
    """`if algo == "grpo"` and its like: an algorithm is a value, and nothing asks for its name."""
    names = {file.stem for group in ("algo", "env") for file in (ROOT / "conf" / group).glob("*.yaml")}
    for file in FILES:
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.Compare):
                values = {n.value for n in ast.walk(node) if isinstance(n, ast.Constant) and isinstance(n.value, str)}
                assert not values & names, f"{name_of(file)}:{node.lineno}: {ast.unparse(node)}"


def test_files_are_short_enough_to_read() -> None:
    long = {name_of(file): num for file in FILES if (num := len(file.read_text().splitlines())) > 400}
    assert not long


def test_there_is_no_pickle_and_no_eval() -> None:
    for file in FILES:
        assert not {"pickle", "dill", "cloudpickle", "shelve"} & {module.split(".")[0] for module in imports(file)}
        calls = [n.func.id for n in ast.walk(ast.parse(file.read_text())) if is_plain_call(n)]
        assert not {"eval", "exec"} & set(calls), name_of(file)


def is_plain_call(node: ast.AST) -> bool:
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
