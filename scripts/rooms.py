"""Rooms of rlx: packages, and modules beside the packages, with floors, sizes and descriptions."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "rlx"
BUDGET = 40_000
"""Lines that rlx/ should have at most."""
QUANTUM = 500
"""Number of lines that sizes are rounded to, so that the page changes with large changes only."""
SILENT = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER}
"""Tokens that make no line a line of code."""
MODULES = "*.py"
"""Row of the modules beside the packages."""


@cache
def rooms() -> dict[str, list[Path]]:
    """Return the files of each package and of each module beside them."""
    files_by_room = defaultdict(list)
    for file in sorted(PACKAGE.rglob("*.py")):
        files_by_room[file.relative_to(PACKAGE).parts[0].removesuffix(".py")].append(file)
    return {room: files for room, files in files_by_room.items() if room != "__init__"}


def imported(files: list[Path]) -> set[str]:
    """Return the rooms that files import when they run; imports for type checkers are left out."""
    return {room for file in files for room in imports_of(ast.parse(file.read_text(encoding="utf-8")))}


def imports_of(node: ast.AST) -> Iterator[str]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.If) and "TYPE_CHECKING" in ast.dump(child.test):
            continue
        modules = [child.module or ""] if isinstance(child, ast.ImportFrom) else []
        modules += [alias.name for alias in child.names] if isinstance(child, ast.Import) else []
        yield from (module.split(".")[1] for module in modules if module.startswith("rlx."))
        yield from imports_of(child)


def floors() -> list[list[str]]:
    """Return the rooms by floor, the lowest first: a room stands one floor above its highest import."""
    below = {room: imported(files) & rooms().keys() - {room} for room, files in rooms().items()}

    @cache
    def floor(room: str) -> int:
        return max((floor(other) + 1 for other in below[room]), default=0)

    return [[room for room in below if floor(room) == number] for number in range(max(map(floor, below)) + 1)]


def draw_floors() -> str:
    """Draw a table of the rooms, the highest floor first, packages before modules, and what each holds."""
    rows = [
        f"| {number} | `{name_of(room)}` | {summary(room)} |"
        for number, floor in reversed(list(enumerate(floors(), 1)))
        for room in sorted(floor, key=lambda room: (not is_package(room), room))
    ]
    return "\n".join(["| floor | room | what it holds |", "|---:|---|---|", *rows])


def name_of(room: str) -> str:
    return f"{room}/" if is_package(room) else f"{room}.py"


def is_package(room: str) -> bool:
    return (PACKAGE / room).is_dir()


def summary(room: str) -> str:
    """Return the first sentence of a package or module."""
    file = PACKAGE / room / "__init__.py"
    return first_sentence(ast.parse((file if file.is_file() else rooms()[room][0]).read_text(encoding="utf-8")))


def first_sentence(node: ast.Module | ast.FunctionDef | ast.ClassDef) -> str:
    text = " ".join((ast.get_docstring(node) or "").split())
    return re.split(r"(?<=[.:;])\s", text)[0].rstrip(".:;")


# sizes


def sizes() -> dict[str, int]:
    """Return the lines of each package by name, and of all modules beside the packages together."""
    lines: Counter[str] = Counter()
    for room in sorted(rooms(), key=lambda room: (not is_package(room), room)):
        lines[name_of(room) if is_package(room) else MODULES] += num_lines(room)
    return dict(lines)


def num_lines(room: str) -> int:
    return sum(file.read_text(encoding="utf-8").count("\n") for file in rooms()[room])


def draw_sizes() -> str:
    """Draw a table of the packages' lines, and what the whole misses the budget by."""
    lines = {name: to_quantum(number) for name, number in sizes().items()}
    total, code = to_quantum(sum(sizes().values())), to_quantum(num_code_lines())
    rows = [f"| `{name}` | {number:,} | {number / total:.0%} |" for name, number in lines.items()]
    budget = (
        f"`rlx/` has about {total:,} lines. The budget is {BUDGET:,}: it is missed by about {total - BUDGET:,}. About"
        f" {code:,} are code; the others are docstrings, comments and empty lines."
    )
    return "\n".join([budget, "", "| package | lines | share |", "|---|---:|---:|", *rows])


@cache
def num_code_lines() -> int:
    return sum(len(code_lines(file.read_text(encoding="utf-8"))) for files in rooms().values() for file in files)


def code_lines(source: str) -> set[int]:
    """Return the numbers of the lines that hold code: neither empty, nor a comment, nor a docstring."""
    tokens = tokenize.generate_tokens(io.StringIO(source).readline)
    code = (token for token in tokens if token.type not in SILENT)
    numbers = {line for token in code for line in range(token.start[0], token.end[0] + 1)}
    return numbers - {line for text in docstrings(source) for line in range(text.lineno, (text.end_lineno or 0) + 1)}


def docstrings(source: str) -> Iterator[ast.Expr]:
    """Yield the string statements, including docstrings of attributes."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            yield node


def to_quantum(number: int) -> int:
    return max(round(number / QUANTUM), 1) * QUANTUM


def read_sizes(drawing: str) -> dict[str, int]:
    """Return the lines that a drawing states."""
    rows = re.findall(r"^\| `(.+?)` \| ([\d,]+) \|", drawing, re.MULTILINE)
    return {name: int(number.replace(",", "")) for name, number in rows}


def wrong_sizes(stated: Mapping[str, int], lines: Mapping[str, int]) -> set[str]:
    """Return the packages whose stated lines are missing, or wrong by more than a tenth and more than a quantum."""
    return {
        name
        for name in stated.keys() | lines.keys()
        if abs(stated.get(name, 0) - lines.get(name, 0)) > max(QUANTUM, lines.get(name, 0) / 10)
        or (name in stated) != (name in lines)
    }
