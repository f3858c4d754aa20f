"""Programs as contests have them, and functions as HumanEval has them, run in the contained CPython as they are.

A file of the folder `accepted` holds, in the project's own words:

    === title        then the code
    --- input        then what a program reads, and after `--- output` what it prints
    --- f(1, 2)      then the text of what a function returns
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from rlx.tool.program import run_calls, run_programs
from rlx.tool.python import Python
from rlx.tool.tool import Result

pytestmark = pytest.mark.usefixtures("container")
FOLDER = Path(__file__).with_name("accepted")
PYTHON = Python(interpreter="cpython", seconds=60, memory_mb=1024, max_characters=20_000, output_characters=5000)
Case = tuple[str, str]
"""An input or a call, and its output or value."""


def read(kind: str) -> Iterator[tuple[str, str, list[tuple[str, str]]]]:
    """Yield the title, the code and the parts of each item: the rest of a line of dashes, and the lines below it."""
    text = "".join(path.read_text() for path in sorted(FOLDER.glob(f"{kind}_*.txt")))
    for item in text.removeprefix("=== ").split("\n=== "):
        head, *parts = item.rstrip("\n").split("\n--- ")
        title, _, code = head.partition("\n")
        yield title, code, [(part.partition("\n")[0], part.partition("\n")[2]) for part in parts]


def programs() -> list[tuple[str, str, list[Case]]]:
    items = []
    for title, code, parts in read("program"):
        assert [name for name, _ in parts] == ["input", "output"] * (len(parts) // 2), title
        items.append((title, code, [(stdin, stdout) for (_, stdin), (_, stdout) in zip(parts[::2], parts[1::2])]))
    return items


def lines(text: str) -> list[str]:
    return [line.rstrip() for line in text.rstrip().split("\n")]


def test_accepted_programs_pass() -> None:
    items = programs()
    assert len(items) >= 171
    for title, code, cases in items:
        told = run_programs(PYTHON, code, [f"{stdin}\n" for stdin, _ in cases])
        assert [lines(one.output) for one in told] == [lines(stdout) for _, stdout in cases], title


def test_reference_functions_pass() -> None:
    items = list(read("function"))
    assert len(items) >= 164
    for title, code, cases in items:
        told = run_calls(PYTHON, code, [f"repr({call})" for call, _ in cases])
        assert list(told) == [Result(output=value) for _, value in cases], title
