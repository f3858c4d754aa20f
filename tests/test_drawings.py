"""docs/architecture.md has the drawings that scripts/drawings.py makes from the code."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from scripts import drawings, rooms
from tests.loops import for_each

ROOT = Path(__file__).resolve().parents[1]
NUMBER = r"[\d,]*\d"
PAGE = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")


def drawn(name: str) -> str:
    return PAGE[drawings.place_of_drawing(PAGE, name)].strip("\n")


def test_the_floors_are_those_of_the_imports() -> None:
    assert drawn("floors") == rooms.draw_floors(), "make drawings"


def test_the_sizes_are_about_those_of_the_packages() -> None:
    stated = rooms.read_sizes(drawn("sizes"))
    assert not rooms.wrong_sizes(stated, rooms.sizes()), "make drawings"
    total, budget, missing, code = (int(n.replace(",", "")) for n in re.findall(NUMBER, drawn("sizes").split("|")[0]))
    assert total == pytest.approx(sum(rooms.sizes().values()), rel=0.1)
    assert (budget, missing) == (rooms.BUDGET, total - rooms.BUDGET)
    assert code == pytest.approx(rooms.num_code_lines(), rel=0.1)


def test_docstrings_comments_and_empty_lines_are_no_code() -> None:
    source = '"""A module."""\n\nA = 1  # one\n"""An attribute."""\n# why\n\nTEXT = """two\nlines"""\n'
    assert rooms.code_lines(source) == {3, 7, 8}


@for_each(
    "stated, wrong",
    [
        ({"a/": 10_000, "b/": 500}, set()),
        ({"a/": 9_000, "b/": 1_000}, set()),
        ({"a/": 8_500, "b/": 500}, {"a/"}),
        ({"a/": 10_000, "b/": 1_500}, {"b/"}),
        ({"a/": 10_000}, {"b/"}),
        ({"a/": 10_000, "b/": 500, "c/": 500}, {"c/"}),
    ],
)
def test_sizes_may_be_wrong_by_a_tenth_or_by_their_rounding(stated: dict[str, int], wrong: set[str]) -> None:
    assert rooms.wrong_sizes(stated, {"a/": 10_000, "b/": 500}) == wrong


def test_sizes_that_are_about_right_are_not_written_again() -> None:
    page = "<!-- drawing: sizes -->\nold\n<!-- end of drawing: sizes -->"
    new = drawings.put(page, "sizes", rooms.draw_sizes())
    assert rooms.read_sizes(new) == rooms.read_sizes(rooms.draw_sizes())
    assert drawings.put(new, "sizes", "another") == new


def test_the_paths_are_the_calls_of_a_step() -> None:
    done = subprocess.run([sys.executable, "-m", "scripts.drawings"], cwd=ROOT, capture_output=True, text=True)
    assert not done.returncode, done.stderr
    for name in ("episode", "batch"):
        assert drawn(name) in done.stdout, "make drawings"


def test_a_page_without_a_place_for_a_drawing_is_refused() -> None:
    with pytest.raises(SystemExit) as error:
        drawings.put("no marks", "floors", "")
    assert "drawing: floors" in str(error.value)
