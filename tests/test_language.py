"""Plain English in docstrings, comments of options and names: the rules of CONTRIBUTING.md that a program can see."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from tests.loops import for_each

ROOT = Path(__file__).resolve().parents[1]
TREES = ("rlx", "conf", "scripts", "hydra_plugins")
LONGEST = 28
"""Words of a sentence, at most."""
OPENING = re.compile(
    r"\s*(what|of|how|whether|where|which|who|whom|whose|by|with|as|those|that|none|such|if|from|in|beside|to)\b", re.I
)
"""First words that no docstring and no comment of an option has: they delay its subject and its verb."""
PARTICIPLE = re.compile(r"(?:^|_)(?:told|said|heard|known|found|kept|shown|lent|whole|whom|own)(?:_|$)", re.I)
"""Parts that no name of a function or class has: they do not say what the thing is."""

EMPTY = re.compile(
    r"^(?:told|said|heard|known|found|kept|shown|lent|whole|whom|own|ones?|held|what|which|who|made|given|seen|asked|taken"
    r"|meant|due|at|of|until|here|there|every|such|so|things?)(?:_\w+)?$"
)
"""Variables and parameters that do not name what they hold."""
POINTER = re.compile(
    r"\b(?:that|which|what|as|where|who|whose|whom|ones?|its?|they|them|their|these|those|this)\b", re.I
)
"""Words that point at a noun elsewhere. A sentence of which they are more than a quarter is a riddle."""


def prose_in(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Yield each docstring, of attributes too, with its line; drop indented examples."""
    for node in ast.walk(tree):
        body = getattr(node, "body", None)
        for statement in body if isinstance(body, list) else ():
            match statement:
                case ast.Expr(value=ast.Constant(value=str(text))):
                    margin = " " * (statement.col_offset + 4)
                    yield statement.lineno, re.sub(rf"(?m)^{margin}.*$", "", text)


def comments_in(source: str) -> Iterator[tuple[int, str]]:
    """Yield each block of comment lines in YAML, with its first line."""
    for block in re.finditer(r"(?m)(?:^ *#(?: .*)?\n)+", source):
        line = source.count("\n", 0, block.start()) + 1
        text = re.sub(r"(?m)^ *# ?", "", block.group())
        yield line, re.sub(r"(?m)^ {4,}.*$", "", text)


def names_in(tree: ast.Module) -> Iterator[tuple[int, str]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node.lineno, node.name


def variables_in(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Yield each parameter and each variable that is set, with its line."""
    for node in ast.walk(tree):
        if isinstance(node, ast.arg):
            yield node.lineno, node.arg
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.lineno, node.id


def faults_of(text: str) -> Iterator[str]:
    """Yield the faults of one docstring or comment."""
    if opening := OPENING.match(text):
        yield f"begins with {opening[1]!r}: {' '.join(text.split())[:60]}"
    for sentence in re.split(r"(?<=[.;:])\s|\n\s*\n|\n *- ", text):
        words = sentence.split()
        if len(words) > LONGEST:
            yield f"has a sentence of {len(words)} words: {' '.join(words)[:60]}"


def riddles_in(text: str) -> Iterator[str]:
    """Yield the riddles of a docstring."""
    for sentence in re.split(r"(?<=[.;:])\s", text):
        num_words, num_pointers = len(sentence.split()), len(POINTER.findall(sentence))
        if num_pointers >= 3 and num_words < 4 * num_pointers:
            yield f"has a riddle: {' '.join(sentence.split())[:60]}"


def offences(path: Path, source: str) -> list[str]:
    """List what breaks a rule in a file, a line each."""
    if path.suffix == ".py":
        tree = ast.parse(source)
        prose = prose_in(tree)
        names = [(line, name) for line, name in names_in(tree) if PARTICIPLE.search(name)]
        variables = [(line, name) for line, name in variables_in(tree) if EMPTY.match(name)]
    else:
        prose, names, variables = comments_in(source), [], []
    found = [(line, fault) for line, text in prose for fault in faults_of(text)]
    if path.suffix == ".py":
        found += [(line, fault) for line, text in prose_in(tree) for fault in riddles_in(text)]
    found += [(line, f"defines {name}: name the thing, not what was done to it") for line, name in names]
    found += [(line, f"has a variable {name}: name the thing") for line, name in variables]
    return [f"{path}:{line} {fault}" for line, fault in sorted(found)]


def test_the_project_is_written_in_plain_english() -> None:
    files = [path for tree in TREES for path in sorted((ROOT / tree).rglob("*")) if path.suffix in (".py", ".yaml")]
    assert len(files) > 700, "the trees of the project"
    found = [line for path in files for line in offences(path.relative_to(ROOT), path.read_text(encoding="utf-8"))]
    assert not found, "\n".join(["plain English, by CONTRIBUTING.md:", *found])


LONG = "Return" + " row" * 29
EXAMPLE = '"""Return.\n\n    what of how\n"""'


@for_each(
    "name, source, fault",
    [
        ("module.py", '"""What a module holds."""', "1 begins with 'What'"),
        ("function.py", 'def f():\n    """Of a list, the first."""', "2 begins with 'Of'"),
        ("attribute.py", 'class C:\n    x: int\n    """How many."""', "3 begins with 'How'"),
        ("instance.py", 'def f(self):\n    self.x = 1\n    """Whether it is one."""', "3 begins with 'Whether'"),
        ("constant.py", 'X = 1\n"""Where it is."""', "2 begins with 'Where'"),
        ("long.py", f'"""{LONG}."""', "1 has a sentence of 30 words"),
        ("name.py", "def list_kept(): ...", "1 defines list_kept"),
        ("class.py", "class Said: ...", "1 defines Said"),
        ("inner.py", "class C:\n    async def own_part(self): ...", "2 defines own_part"),
        ("variable.py", "def f(rows):\n    found = rows[0]", "2 has a variable found"),
        ("parameter.py", "def f(one): ...", "1 has a variable one"),
        ("riddle.py", '"""Name of what it reads, if it reads from one."""', "1 has a riddle"),
        ("option.yaml", "a: 1\n# which of them\n# is taken\nb: 2\n", "2 begins with 'which'"),
        ("inner.yaml", "a:\n  # how many\n  b: 2\n", "2 begins with 'how'"),
        ("long.yaml", f"# {LONG}\na: 1\n", "1 has a sentence of 30 words"),
    ],
)
def test_a_broken_rule_is_listed_with_its_line(name: str, source: str, fault: str) -> None:
    (found,) = offences(Path(name), source)
    assert found.startswith(f"{name}:{fault}")


@for_each(
    "name, source",
    [
        ("plain.py", '"""Return the first of a list: what the caller gave."""\ndef unknown(): ...'),
        ("example.py", EXAMPLE),
        ("method.py", f'class C:\n    def f(self):\n        """Return.\n\n            what {LONG}\n        """'),
        ("two.py", f'"""{LONG[:90]}. {LONG[:90]}."""'),
        ("list.py", f'"""Return both:\n\n- {LONG[:90]}\n- {LONG[:90]}\n"""'),
        ("option.yaml", "# number of turns: at most\n# of any episode\na: 1  # what it is\n"),
    ],
)
def test_plain_prose_and_examples_pass(name: str, source: str) -> None:
    assert offences(Path(name), source) == []
