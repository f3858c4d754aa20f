"""The wheel carries everything: installed elsewhere, it works from any folder as well as the checkout does."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]


def run(*words: str, cwd: Path) -> str:
    env = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "RLX_CONF_DIR")}
    done = subprocess.run(words, cwd=cwd, env=env, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    pip = (sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "--no-build-isolation", "-w", str(folder))
    run(*pip, str(ROOT), cwd=folder)
    return next(folder.glob("rlx-*.whl"))


@pytest.fixture(scope="module")
def rlx(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> str:
    """The `rlx` of an environment of its own, which borrows only what rlx depends on."""
    folder = tmp_path_factory.mktemp("environment")
    run(sys.executable, "-m", "venv", "--without-pip", str(folder), cwd=folder)
    packages = folder / "lib" / f"python{sys.version_info.major}.{sys.version_info.minor}" / "site-packages"
    run(sys.executable, "-m", "pip", "--python", str(folder / "bin" / "python"), "install", "-q", "--no-deps",
        "--no-index", str(wheel), cwd=folder)  # fmt: skip
    borrowed = packages / "borrowed"
    borrowed.mkdir()
    for item in Path(sysconfig.get_path("purelib")).iterdir():
        if not item.name.startswith(("rlx", "_rlx", "_editable", "__editable__")) and item.suffix != ".pth":
            (borrowed / item.name).symlink_to(item)
    (packages / "borrowed.pth").write_text("borrowed\n")
    (folder / "bin" / "monty").symlink_to(Path(sysconfig.get_path("scripts")) / "monty")
    return str(folder / "bin" / "rlx")


def test_the_wheel_carries_configuration_sweeps_plugin_and_model(wheel: Path) -> None:
    names = set(zipfile.ZipFile(wheel).namelist())
    shipped = [*ROOT.glob("conf/**/*.yaml"), *ROOT.glob("sweeps/**/*.yaml"), *ROOT.glob("scripts/reproduce/*.yaml")]
    places = {file.relative_to(ROOT).as_posix().replace("scripts/reproduce/", "reproductions/") for file in shipped}
    assert {f"rlx/{place}" for place in places} <= names
    assert {"hydra_plugins/rlx_searchpath/__init__.py", "rlx/py.typed", "rlx/model/nano/config.json"} <= names
    assert {file.relative_to(ROOT).as_posix() for file in ROOT.glob("rlx/env/game/*.txt")} <= names
    assert "hydra_plugins/__init__.py" not in names
    assert not any(name.startswith(("tests/", "outputs/", "scripts/")) for name in names)


def test_an_installed_wheel_works_from_any_folder(rlx: str, tmp_path: Path) -> None:
    where = run(str(Path(rlx).parent / "python"), "-c", "import rlx; print(rlx.__file__)", cwd=tmp_path)
    assert str(ROOT) not in where
    assert run(rlx, "list", "env", cwd=tmp_path) == run(sys.executable, "-m", "rlx", "list", "env", cwd=ROOT)
    assert "1 step, " in run(rlx, "plan", "steps=1", "+sweep=tool_cost", cwd=tmp_path)
    assert "reward" in run(rlx, "data", "--num", "1", cwd=tmp_path)


def test_an_installed_wheel_finds_a_conf_folder_where_it_runs(rlx: str, tmp_path: Path) -> None:
    (tmp_path / "conf" / "env").mkdir(parents=True)
    text = (ROOT / "conf" / "env" / "countdown.yaml").read_text().split("\n", 1)[1]
    (tmp_path / "conf" / "env" / "mine.yaml").write_text("# my own\n" + text)
    assert "mine" in run(rlx, "list", "env", cwd=tmp_path)
    assert "my own" in run(rlx, "list", "env", cwd=tmp_path)
    assert "Countdown" in run(rlx, "plan", "env=mine", cwd=tmp_path)
