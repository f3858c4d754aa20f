"""docs/architecture.md has the drawings that scripts/drawings.py makes from the code."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from scripts import drawings

ROOT = Path(__file__).resolve().parents[1]
PAGE = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")


def drawn(name: str) -> str:
    match = re.search(f"(?<=<!-- drawing: {name} -->\n).*?(?=<!-- end of drawing: {name} -->)", PAGE, re.DOTALL)
    assert match is not None
    return match[0].strip("\n")


def without_sizes(table: str) -> str:
    """Lines of code change with every commit, and the page is drawn again when something else does."""
    return re.sub(r"[\d.,]+%? \|", "|", re.sub(r"^\| (\d+) ", r"| floor \1 ", table, flags=re.MULTILINE))


def test_the_floors_are_those_of_the_imports() -> None:
    assert without_sizes(drawn("floors")) == without_sizes(drawings.draw_floors()), "make drawings"


def test_the_paths_are_the_calls_of_a_step() -> None:
    done = subprocess.run([sys.executable, "-m", "scripts.drawings"], cwd=ROOT, capture_output=True, text=True)
    assert not done.returncode, done.stderr
    for name in ("episode", "batch"):
        assert drawn(name) in done.stdout, "make drawings"


def test_a_page_without_a_place_for_a_drawing_is_refused() -> None:
    with pytest.raises(SystemExit) as error:
        drawings.put("no marks", "floors", "")
    assert "drawing: floors" in str(error.value)
