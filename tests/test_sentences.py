"""Tests expect errors by type, key and value, never by a sentence that somebody may reword."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.errors import is_sentence

ROOT = Path(__file__).resolve().parents[1]
FILES = sorted((ROOT / "tests").rglob("*.py"))


def sentences(source: str) -> list[str]:
    """Return the sentences that a test pins with `match=`, as literals or by parameters of its cases."""
    return [
        text
        for part in ast.parse(source).body
        for call in ast.walk(part)
        if isinstance(call, ast.Call)
        for keyword in call.keywords
        if keyword.arg == "match"
        for text in (*texts(keyword.value), *cases(part, names(keyword.value)))
        if is_sentence(plain(text))
    ]


def plain(pattern: str) -> str:
    """Return a regular expression without its escapes and anchors, as the text it is for."""
    return re.sub(r"\\(\W)", r"\1", pattern).strip("^$")


def texts(node: ast.AST) -> Iterator[str]:
    return (n.value for n in ast.walk(node) if isinstance(n, ast.Constant) and isinstance(n.value, str))


def names(node: ast.AST) -> set[str]:
    return {n.id for n in ast.walk(node) if isinstance(n, ast.Name)}


def cases(test: ast.stmt, wanted: set[str]) -> Iterator[str]:
    """Yield the texts that `parametrize` gives to the `wanted` parameters of a test."""
    for decorator in getattr(test, "decorator_list", ()):
        if isinstance(decorator, ast.Call) and ast.unparse(decorator.func).endswith("parametrize"):
            parameters = [name.strip() for text in texts(decorator.args[0]) for name in text.split(",")]
            for index in (parameters.index(name) for name in wanted & set(parameters)):
                yield from column(decorator.args[1], index, len(parameters) > 1)


def column(rows: ast.expr, index: int, many: bool) -> Iterator[str]:
    for row in getattr(rows, "elts", ()):
        values = row.args if isinstance(row, ast.Call) else getattr(row, "elts", [row]) if many else [row]
        yield from texts(values[index] if index < len(values) else row)


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.relative_to(ROOT).as_posix())
def test_no_test_pins_the_sentence_of_an_error(file: Path) -> None:
    assert sentences(file.read_text()) == []


def test_a_sentence_is_found_in_a_match_and_in_the_cases_of_a_parameter() -> None:
    source = """
@pytest.mark.parametrize(("value", "told"), [(1, "it is not so"), (2, r"^a=2: expected .*")])
def test_it(value, told):
    with pytest.raises(ValueError, match=rf"^key={value}: there is no key"):
        pass
    with pytest.raises(ValueError, match=told):
        pass
"""
    assert sentences(source) == [": there is no key", "it is not so"]
