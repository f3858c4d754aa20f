"""Change one place of the code at a time, and see whether a test fails: a measure of the tests, not of the code.

python -m scripts.mutants                  # draw 40 mutants, and run the tests on each (an hour or two of one core)
python -m scripts.mutants --seed 1 --num 80 --list
"""

from __future__ import annotations

import argparse
import ast
import json
import os
import random
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = ("algo", "learner", "rollout", "evaluation")
UNSEEN = ("learner/deepspeed.py", "learner/zero.py", "rollout/vllm/*", "*/__init__.py")
"""Files that `make test` cannot run without a GPU or another package: make test-cluster has their tests."""
LATER = ("tests/test_train.py", "tests/test_worlds.py", "tests/test_agents.py", "tests/run", "tests/test_evaluation.py")
"""Tests of whole runs, for mutants that outlive the tests of their package."""
NO_TESTS = 5
"""Exit code of pytest where it finds no test: those of the file take too long for `make test`."""
SWAPS: dict[type[ast.AST], str] = {
    ast.Add: "-",
    ast.Sub: "+",
    ast.Mult: "/",
    ast.Div: "*",
    ast.FloorDiv: "*",
    ast.Mod: "*",
    ast.Lt: "<=",
    ast.LtE: "<",
    ast.Gt: ">=",
    ast.GtE: ">",
    ast.Eq: "!=",
    ast.NotEq: "==",
    ast.Is: "is not",
    ast.IsNot: "is",
    ast.In: "not in",
    ast.NotIn: "in",
    ast.And: "or",
    ast.Or: "and",
}


@dataclass(frozen=True)
class Mutant:
    """Text that replaces a part of one line."""

    file: str
    line: int
    start: int
    end: int
    before: str
    after: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.before}  ->  {self.after}"

    def apply(self, folder: Path) -> None:
        path = folder / self.file
        lines = path.read_bytes().split(b"\n")
        text = lines[self.line - 1]
        lines[self.line - 1] = text[: self.start] + self.after.encode() + text[self.end :]
        path.write_bytes(b"\n".join(lines))


def mutants_of(file: Path) -> Iterator[Mutant]:
    """Yield every mutant of a file: an operator, a comparison, a number, a truth value or a condition is another."""
    tree = ast.parse(file.read_text(encoding="utf-8"))
    for node in executed(tree):
        for part, text in changes(node):
            if part.lineno == part.end_lineno and part.end_col_offset is not None:
                before = ast.unparse(part)
                name = file.relative_to(ROOT).as_posix()
                yield Mutant(name, part.lineno, part.col_offset, part.end_col_offset, before, text)


def executed(node: ast.AST) -> Iterator[ast.AST]:
    """Yield the nodes of functions' bodies, without defaults, annotations and error messages."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.FunctionDef):
            for statement in child.body:
                yield from inner(statement)
        elif isinstance(child, ast.ClassDef):
            yield from executed(child)


def inner(node: ast.AST) -> Iterator[ast.AST]:
    if isinstance(node, (ast.Raise, ast.Assert, ast.JoinedStr, ast.arguments)):
        return
    yield node
    for child in ast.iter_child_nodes(node):
        yield from inner(child)


def changes(node: ast.AST) -> Iterator[tuple[ast.expr, str]]:
    """Yield expressions that a node may be replaced by another text."""
    match node:
        case ast.BinOp(left, op, right) if type(op) in SWAPS:
            yield node, f"({ast.unparse(left)}) {SWAPS[type(op)]} ({ast.unparse(right)})"
        case ast.Compare(left, [op], [right]) if type(op) in SWAPS:
            yield node, f"({ast.unparse(left)}) {SWAPS[type(op)]} ({ast.unparse(right)})"
        case ast.BoolOp(op, values):
            yield node, f" {SWAPS[type(op)]} ".join(f"({ast.unparse(value)})" for value in values)
        case ast.UnaryOp(ast.Not(), operand):
            yield node, f"({ast.unparse(operand)})"
        case ast.UnaryOp(ast.USub(), operand):
            yield node, f"({ast.unparse(operand)})"
        case ast.Constant(bool() as value):
            yield node, str(not value)
        case ast.Constant(int() | float() as value):
            yield node, f"{value + 1}"
        case ast.If(test) | ast.IfExp(test):
            yield test, f"not ({ast.unparse(test)})"


def draw(seed: int, num: int) -> list[Mutant]:
    """Draw mutants: a file in proportion to its places, each place once."""
    files = (file for package in PACKAGES for file in sorted((ROOT / "rlx" / package).rglob("*.py")))
    included = [file for file in files if not any(file.match(f"rlx/{name}") or file.match(name) for name in UNSEEN)]
    return random.Random(seed).sample([mutant for file in included for mutant in mutants_of(file)], num)


def tests_of(mutant: Mutant) -> list[list[str]]:
    """Return lists of tests, each for a run of pytest: tests that name the mutant's module, tests of the package, and
    tests that run whole programs. Most mutants fail in the first list."""
    package = f"tests/{mutant.file.split('/')[1]}"
    return [near_tests(mutant.file, package), [package], [test for test in LATER if (ROOT / test).exists()]]


def near_tests(file: str, package: str) -> list[str]:
    """Return the files of tests that name a module of rlx, those of its package first."""
    module = re.compile(rf"\b{re.escape(file.removesuffix('.py').replace('/', '.'))}\b")
    tests = (test for test in sorted((ROOT / "tests").rglob("test_*.py")) if module.search(test.read_text("utf-8")))
    return sorted((test.relative_to(ROOT).as_posix() for test in tests), key=lambda test: not test.startswith(package))


def killed_by(mutant: Mutant, minutes: int) -> str:
    """Return the first test that fails with the mutant, or what else ended it; empty if it survives."""
    with TemporaryDirectory() as folder:
        copy = Path(folder) / "rlx"
        subprocess.run(
            ["git", "-c", "advice.detachedHead=false", "clone", "-q", "--shared", str(ROOT), str(copy)], check=True
        )
        mutant.apply(copy)
        for tests in filter(None, tests_of(mutant)):
            failed = first_failure(copy, tests, minutes)
            if failed:
                return failed
    return ""


def first_failure(folder: Path, tests: list[str], minutes: int) -> str:
    words = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", "-p", "no:xdist"]
    words += ["-m", "not slow and not cluster and not browser", *tests]
    environment = {**os.environ, "PYTHONPATH": str(folder), "OMP_NUM_THREADS": "1"}
    try:
        done = subprocess.run(words, cwd=folder, capture_output=True, text=True, timeout=60 * minutes, env=environment)
    except subprocess.TimeoutExpired:
        return f"more than {minutes} minutes"
    lines = [line for line in done.stdout.splitlines() if line.startswith(("FAILED", "ERROR"))]
    return "" if done.returncode in (0, NO_TESTS) else (lines or [f"exit code {done.returncode}"])[0]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--num", type=int, default=40)
    parser.add_argument("--list", action="store_true", help="print the mutants, and run nothing")
    parser.add_argument("--out", type=Path, default=ROOT / "outputs" / "mutants.jsonl", help="results; a rerun goes on")
    parser.add_argument("--minutes", type=int, default=15, help="what no run of pytest takes: longer means killed")
    chosen = parser.parse_args()
    drawn = draw(chosen.seed, chosen.num)
    if chosen.list:
        print(*drawn, sep="\n")
        return 0
    chosen.out.parent.mkdir(parents=True, exist_ok=True)
    lines = chosen.out.read_text().splitlines() if chosen.out.exists() else []
    killers = {line["mutant"]: line["killed_by"] for line in map(json.loads, lines)}
    for mutant in drawn:
        if str(mutant) not in killers:
            killers[str(mutant)] = killed_by(mutant, chosen.minutes)
            with chosen.out.open("a") as file:
                file.write(json.dumps({"mutant": str(mutant), "killed_by": killers[str(mutant)]}) + "\n")
        print(f"{'killed' if killers[str(mutant)] else 'SURVIVES'}  {mutant}", flush=True)
    survivors = [mutant for mutant in drawn if not killers[str(mutant)]]
    print(f"{len(drawn) - len(survivors)} of {len(drawn)} killed")
    return 0


if __name__ == "__main__":
    sys.exit(main())
