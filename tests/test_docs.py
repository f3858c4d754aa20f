"""The pages on adding an environment and an algorithm, followed to the letter in an empty folder."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
BLOCK = re.compile(r"^```\w+ file=(\S+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def follow(page: str, folder: Path) -> None:
    """Write the page's files where it says."""
    for name, text in BLOCK.findall((ROOT / "docs" / page).read_text(encoding="utf-8")):
        file = folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")


def run(*words: str, cwd: Path) -> str:
    env = {
        **os.environ,
        "OMP_NUM_THREADS": "1",
        "PYTHONPATH": str(ROOT),
        "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]),
        "RLX_CACHE": str(cwd / "cache"),
        "WANDB_MODE": "disabled",
    }
    done = subprocess.run(words, cwd=cwd, env=env, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.parametrize("page", ["adding-an-environment.md", "adding-an-algorithm.md"])
def test_a_page_can_be_followed_as_it_stands(page: str, tmp_path: Path) -> None:
    follow(page, tmp_path)
    run(sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", ".", cwd=tmp_path)
    scripts = ["setup.sh", *sorted(script.name for script in tmp_path.glob("try*.sh"))]
    tried = run("bash", "-ec", "".join(f". ./{script}; " for script in scripts), cwd=tmp_path)
    first = next(option for group in ("algo", "env") for option in sorted(tmp_path.glob(f"conf/{group}/*.yaml")))
    assert re.search(rf"^{first.stem} +{first.read_text().splitlines()[0][2:]}$", tried, re.MULTILINE)
    for option in [*tmp_path.glob("conf/algo/*.yaml"), *tmp_path.glob("conf/env/*.yaml")]:
        assert (tmp_path / "outputs" / option.stem / "summary.json").is_file()
