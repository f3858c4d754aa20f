"""Docs, docstrings, comments and options name code that exists: `rlx.algo.gae`, `rlx.types.Task`, `rlx/training.py`."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "rlx"
DOTTED = re.compile(r"(?<![\w./@-])rlx(?:\.[A-Za-z_]\w*)+")
FILE = re.compile(r"(?<![\w/])rlx/[\w/]+\.py\b")
PLACEHOLDERS = {"X", "NAME", "FAMILY"}
"""Names that stand for any."""
OTHER = {"rlx.log"}
"""A file of another meaning."""


def texts() -> Iterator[tuple[Path, str]]:
    code, options, pages = PACKAGE.rglob("*.py"), (ROOT / "conf").rglob("*.yaml"), (ROOT / "docs").rglob("*.md")
    for file in (*code, *options, *pages, ROOT / "README.md"):
        yield file, file.read_text(encoding="utf-8")


def names_in(file: Path) -> set[str]:
    """Return the names that a module defines, at any depth, or imports."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        match node:
            case ast.FunctionDef(name=name) | ast.ClassDef(name=name):
                found.add(name)
            case ast.Assign(targets=targets):
                found |= {target.id for target in targets if isinstance(target, ast.Name)}
            case ast.AnnAssign(target=ast.Name(id=name)):
                found.add(name)
            case ast.Import(names=names) | ast.ImportFrom(names=names):
                found |= {(one.asname or one.name).split(".")[0] for one in names}
    return found


def exists(name: str) -> bool:
    """Tell whether a dotted name is a module of rlx or something that one defines."""
    parts = name.split(".")
    for num in range(len(parts), 0, -1):
        place = ROOT.joinpath(*parts[:num])
        file = place / "__init__.py" if place.is_dir() else place.with_suffix(".py")
        if file.is_file():
            return num == len(parts) or parts[num] in names_in(file)
    return False


def test_a_name_exists_only_where_its_module_defines_it() -> None:
    assert exists("rlx.types.Task")
    assert exists("rlx.types.Task.anything")
    assert exists("rlx.algo")
    assert not exists("rlx.types.Tusk")
    assert not exists("rlx.no_such_module.Task")


def test_all_code_that_is_named_exists() -> None:
    dotted, files = set(), set()
    for file, text in texts():
        where = file.relative_to(ROOT).as_posix()
        dotted |= {(where, name) for name in DOTTED.findall(text) if not PLACEHOLDERS & set(name.split("."))}
        files |= {(where, name) for name in FILE.findall(text) if not PLACEHOLDERS & set(re.split(r"[/.]", name))}
    known = {name: name in OTHER or exists(name) for _, name in dotted}
    assert len(known) > 300
    assert sorted((where, name) for where, name in dotted if not known[name]) == []
    assert sorted((where, name) for where, name in files if not (ROOT / name).is_file()) == []
