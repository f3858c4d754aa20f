"""A scaffold works as it is written, and overwrites nothing."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from rlx.commands.new import NewError, describe_new, fill, write_new
from tests.errors import raises_naming

ROOT = Path(__file__).resolve().parents[2]


def run(*words: str, cwd: Path) -> str:
    env = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": f"{cwd}{os.pathsep}{ROOT}"}
    done = subprocess.run([sys.executable, "-m", *words], cwd=cwd, env=env, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.parametrize(("kind", "look"), [("env", ["data"]), ("algo", ["plan"])])
def test_what_is_written_passes_its_test_and_is_an_option(kind: str, look: list[str], tmp_path: Path) -> None:
    run("rlx", "new", kind, "guess_it", cwd=tmp_path)
    assert " passed" in run("pytest", "-q", "-p", "no:cacheprovider", cwd=tmp_path)
    run("ruff", "check", "--ignore=I001", "--config", str(ROOT / "pyproject.toml"), ".", cwd=tmp_path)
    run("ruff", "format", "--check", "--config", str(ROOT / "pyproject.toml"), ".", cwd=tmp_path)
    assert "guess_it" in run("rlx", "list", kind, cwd=tmp_path)
    assert run("rlx", *look, f"{kind}=guess_it", cwd=tmp_path)


def test_a_new_environment_and_a_new_algorithm_go_together(tmp_path: Path) -> None:
    run("rlx", "new", "env", "cellar", cwd=tmp_path)
    run("rlx", "new", "algo", "grpo_length", cwd=tmp_path)
    assert "chosen" in run("rlx", "plan", "env=cellar", "algo=grpo_length", "evaluate=quick", cwd=tmp_path)


def test_nothing_is_overwritten_and_nothing_half_written(tmp_path: Path) -> None:
    yaml = tmp_path / "conf" / "env" / "guess_it.yaml"
    yaml.parent.mkdir(parents=True)
    yaml.write_text("mine")
    with raises_naming(NewError, "guess_it.yaml", "already"):
        write_new("env", "guess_it", tmp_path)
    assert yaml.read_text() == "mine"
    assert not (tmp_path / "my_envs").exists()


def test_nothing_is_written_where_a_folder_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "conf").write_text("a file")
    with pytest.raises(OSError, match="conf"):
        write_new("env", "guess_it", tmp_path)
    assert [file.name for file in tmp_path.rglob("*") if file.is_file()] == ["conf"]


@pytest.mark.parametrize(
    ("kind", "name", "names"),
    [
        ("tool", "x", ["'tool'", "scaffold"]),
        ("env", "countdown", ["env", "'countdown'", "already"]),
        ("env", "../x", ["'../x'", "Python"]),
        ("env", "class", ["'class'", "Python"]),
        ("algo", "Mine", ["'Mine'", "Python"]),
        ("env", "", ["''", "Python"]),
        ("env", "task", ["'task'", "something else"]),
        ("env", "none", ["'none'", "something else"]),
        ("algo", "credit", ["'credit'", "something else"]),
        ("env", "null", ["`env=null`", "value"]),
        ("algo", "on", ["`algo=on`", "value"]),
    ],
)
def test_a_wrong_name_is_refused(kind: str, name: str, names: list[str], tmp_path: Path) -> None:
    with raises_naming(NewError, *names):
        write_new(kind, name, tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_names_are_those_of_modules_and_classes(tmp_path: Path) -> None:
    assert fill("$name ${Name}Episode $$", "guess_it2") == "guess_it2 GuessIt2Episode $"
    told = describe_new("env", "x", Path("a b"), [Path("a b/my_envs/x.py")])
    assert "    cd 'a b'\n" in told
    assert 'export PYTHONPATH="$PWD${PYTHONPATH:+:$PYTHONPATH}"' in told
    assert "algo=grpo evaluate=quick" in told, "the scaffold has fewer held-out tasks than a whole evaluation"
