"""Halves of letters, which JSON can spell and no encoding has, come from no data set."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from rlx.env.hub import load_rows
from rlx.plan.checks import check_plan
from rlx.plan.prospect import Prospect
from rlx.settings.compose import build_run, compose
from rlx.tool.search import read_pages

ROWS = [{"question": f"\ud800 what is {n} + 1?", "answer": f"{n + 1}", "\udfff": ["\udc00"]} for n in range(600)]


@pytest.mark.parametrize("name", ["rows.jsonl", "rows.json"])
def test_rows_are_text(tmp_path: Path, name: str) -> None:
    file = tmp_path / name
    file.write_text(json.dumps(ROWS) if name == "rows.json" else "".join(json.dumps(row) + "\n" for row in ROWS))
    for row in load_rows(str(file)):
        json.dumps(row, ensure_ascii=False).encode()
    words = ["env=math", "env.source=hub", f"env.hub={file}", "algo=rloo", "warm_start=none"]
    check_plan(Prospect(run=build_run(compose(words), tmp_path)), lambda: None)


def test_whole_letters_stay(tmp_path: Path) -> None:
    (tmp_path / "rows.jsonl").write_text('{"question": "\\ud83d\\ude00", "answer": "1"}\n')
    assert load_rows(str(tmp_path / "rows.jsonl"))[0]["question"] == "\N{GRINNING FACE}"


def test_pages_are_text(tmp_path: Path) -> None:
    (tmp_path / "pages.jsonl").write_text('"\\ud800 one"\n{"title": "\\udfff", "text": "two"}\n{"contents": "x"}\n')
    for page in read_pages(str(tmp_path / "pages.jsonl")):
        page.encode()
