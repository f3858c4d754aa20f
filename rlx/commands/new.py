"""`rlx new`: the file, the yaml and the test of an environment or algorithm, to be changed into your own."""

from __future__ import annotations

import io
import keyword
import re
import shlex
import tokenize
from collections.abc import Mapping, Sequence
from pathlib import Path
from string import Template

import yaml

from rlx.base.limits import MistakeError
from rlx.settings.folders import list_options

TEMPLATES = Path(__file__).parent / "scaffold"
KINDS = ("env", "algo")
NEXT = """\
    python -m pytest tests/test_$name.py
    export PYTHONPATH="$$PWD$${PYTHONPATH:+:$$PYTHONPATH}"    # where rlx finds my_${kind}s
    rlx list $kind
"""
TRY = {
    "env": "    rlx data env=$name\n    rlx plan env=$name\n    rlx train env=$name algo=grpo evaluate=quick steps=200",
    "algo": "    rlx plan algo=$name\n    rlx train algo=$name",
}


class NewError(MistakeError):
    """Nothing was written; the message is one line that says why."""


def write_new(kind: str, name: str, folder: Path) -> list[Path]:
    """Write the three files; raise NewError before any write if one of them exists."""
    check(kind, name)
    texts = {folder / place: text for place, text in render(kind, name).items()}
    for file in texts:
        if file.exists():
            raise NewError(f"{file} is there already: choose another name, or move it away")
    for file in texts:
        file.parent.mkdir(parents=True, exist_ok=True)
    for file, text in texts.items():
        with open(file, "x", encoding="utf-8") as written:
            written.write(text)
    return list(texts)


def check(kind: str, name: str) -> None:
    if kind not in KINDS:
        raise NewError(f"there is no scaffold of {kind!r}: give `rlx new env NAME` or `rlx new algo NAME`")
    if not re.fullmatch(r"[a-z][a-z0-9_]*", name) or keyword.iskeyword(name):
        raise NewError(f"{name!r} is no name for a Python file: give lower-case letters, digits and _")
    if is_value(name):
        raise NewError(f"`{kind}={name}` would be read as a value, not as a name: choose another name")
    if fill("$Name" if kind == "env" else "$name", name) in names_used(kind):
        raise NewError(f"{name!r} names something else in what would be written: choose another name")
    if name in list_options(kind):
        raise NewError(f"{kind} has an option {name!r} already (`rlx list {kind}`): choose another name")


def is_value(name: str) -> bool:
    """Return whether the command line or a yaml reads the text as null, a boolean or a number."""
    return name in ("nan", "inf") or not isinstance(yaml.safe_load(name), str)


def names_used(kind: str) -> set[str]:
    """Every name in a scaffold's Python, but for its own."""
    texts = (fill((TEMPLATES / f"{kind}.{part}.txt").read_text("utf-8"), "own_name") for part in ("py", "test"))
    tokens = (token for text in texts for token in tokenize.generate_tokens(io.StringIO(text).readline))
    return {token.string for token in tokens if token.type == tokenize.NAME}


def render(kind: str, name: str) -> Mapping[str, str]:
    """Return the texts to write, by their place in the folder."""
    places = {"py": f"my_{kind}s/{name}.py", "yaml": f"conf/{kind}/{name}.yaml", "test": f"tests/test_{name}.py"}
    return {place: fill((TEMPLATES / f"{kind}.{part}.txt").read_text("utf-8"), name) for part, place in places.items()}


def fill(text: str, name: str, kind: str = "") -> str:
    """`$name` is guess_it, `$Name` GuessIt."""
    return Template(text).substitute(name=name, Name="".join(part.title() for part in name.split("_")), kind=kind)


def describe_new(kind: str, name: str, folder: Path, files: Sequence[Path]) -> str:
    """Return a report of the files written and the next commands."""
    go = [] if folder == Path() else [f"    cd {shlex.quote(str(folder))}"]
    return "\n".join(["wrote", *(f"    {file}" for file in files), "next", *go, fill(NEXT + TRY[kind], name, kind)])
