"""A run folder names the command that made it."""

from __future__ import annotations

import json
import shlex
from typing import Any

import pytest

from rlx.runs.command import command_line, command_record
from tests.loops import for_each


@pytest.mark.parametrize("name", ["train", "eval"])
def test_a_record_gives_its_command_line_back(name: str) -> None:
    words = ["env=countdown", "a=b c; $(d)", "x='y'"]
    line = command_line(json.loads(command_record(name, words)))
    assert shlex.split(line) == ["rlx", name, *words]


@for_each(
    "record, line",
    [
        ({"words": ["env=qa"]}, "rlx train env=qa"),  # from before records had names
        ({"words": ["env=qa"], "command": "; rm"}, "rlx train env=qa"),
        ({"words": [1, {"a": 2}], "command": ["eval"]}, f"rlx train 1 {shlex.quote(str({'a': 2}))}"),
        ({"words": "env=qa"}, ""),
        ({"words": []}, ""),
        ({}, ""),
    ],
)
def test_any_record_has_a_command_line(record: dict[str, Any], line: str) -> None:
    assert command_line(record) == line
