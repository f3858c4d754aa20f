"""`make bench` runs every benchmark without arguments."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

FILES = sorted((Path(__file__).resolve().parents[1] / "benchmarks").glob("bench_*.py"))


def required(source: str) -> list[str]:
    """Return the arguments that a program cannot do without."""
    calls = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Call)]
    added = [call for call in calls if isinstance(call.func, ast.Attribute) and call.func.attr == "add_argument"]
    return [ast.unparse(call.args[0]) for call in added if call.args and is_required(call)]


def is_required(call: ast.Call) -> bool:
    settings = {keyword.arg: ast.unparse(keyword.value) for keyword in call.keywords}
    is_positional = not ast.unparse(call.args[0]).strip("'\"").startswith("-")
    return settings.get("nargs") not in ("'?'", "'*'") if is_positional else settings.get("required") == "True"


@pytest.mark.parametrize("call", ["'run'", "'run', nargs='+'", "'--run', required=True"])
def test_a_required_argument_is_found(call: str) -> None:
    assert len(required(f"parser.add_argument({call})")) == 1


def test_every_benchmark_runs_without_arguments() -> None:
    assert FILES
    assert {file.name: found for file in FILES if (found := required(file.read_text(encoding="utf-8")))} == {}
