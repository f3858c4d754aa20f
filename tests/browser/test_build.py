"""The built files are those that the sources make, and the sources' own tests pass."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

pytestmark = pytest.mark.browser
ROOT = Path(__file__).parents[2]
SOURCES = ROOT / "scripts" / "page"
BUILT = ("page.css", "page.html", "page.js")


def npm(*words: str) -> subprocess.CompletedProcess[str]:
    """Run npm in the sources' folder; skip the test where npm or its packages are missing."""
    if shutil.which("npm") is None:
        pytest.skip("npm is not installed")
    if not (SOURCES / "node_modules").is_dir():
        pytest.skip("the page's packages are not installed: npm --prefix scripts/page ci")
    return subprocess.run(["npm", "--silent", *words], cwd=SOURCES, capture_output=True, text=True, timeout=120)


def test_the_build_makes_the_files_of_the_package(tmp_path: Path) -> None:
    done = npm("run", "build", "--", str(tmp_path))
    assert done.returncode == 0, done.stderr
    assert {path.name for path in tmp_path.iterdir()} == {*BUILT}
    for name in BUILT:
        assert (tmp_path / name).read_bytes() == (ROOT / "rlx" / "view" / name).read_bytes(), name


def test_the_sources_pass_their_own_tests() -> None:
    done = npm("test")
    assert done.returncode == 0, done.stdout


def test_the_lock_file_names_no_registry() -> None:
    assert "://" not in (SOURCES / "package-lock.json").read_text()
