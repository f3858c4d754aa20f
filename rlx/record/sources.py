"""Digests of code: rlx's own, and that of the modules which a configuration names, with what they import in turn.

A module's imports are followed within its project: files on PYTHONPATH or in an editable install, and the rest of its
own package. An installed package counts by its version, the standard library by Python's.
"""

from __future__ import annotations

import ast
import hashlib
import os
import sys
import sysconfig
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from rlx.record.moved import NAMING

PACKAGE = Path(__file__).resolve().parents[1]
CODE = (".py", ".txt")
"""Ends of the names of files that rlx consists of; its models count by their own folders."""
SHARED = ("torch", "transformers", "tokenizers", "peft", "numpy", "safetensors", "vllm", "deepspeed")
"""Packages that every result may depend on, as far as they are installed."""


def code_digest(config: Any) -> str:
    """Return a digest of all code that what `config` describes is made by."""
    digest = hashlib.sha256(package_digest().encode())
    files, packages = follow(sorted(set(named_in(config))))
    for name in sorted(files):
        digest.update(f"{name}\0{files[name]}\0".encode())
    for package in sorted({*SHARED, *packages}):
        digest.update(f"{package}\0{version_of(package)}\0".encode())
    return digest.hexdigest()[:16]


@cache
def package_digest() -> str:
    """Return the digest of rlx's source as it is when it is first asked for."""
    digest = hashlib.sha256(sys.version.encode())
    for path in sorted(path for path in PACKAGE.rglob("*") if path.suffix in CODE):
        digest.update(f"{path.relative_to(PACKAGE)}\0{file_digest(path)}\0".encode())
    return digest.hexdigest()


def named_in(tree: Any) -> Iterator[str]:
    """Yield the modules, and things in modules, that a configuration names."""
    if isinstance(tree, Mapping):
        yield from (str(tree[key]) for key in NAMING if isinstance(tree.get(key), str))
        for value in tree.values():
            yield from named_in(value)
    elif isinstance(tree, Sequence) and not isinstance(tree, str):
        for value in tree:
            yield from named_in(value)


def follow(names: Sequence[str]) -> tuple[dict[str, str], set[str]]:
    """Return the digests of the source files behind dotted names and all that these import, by module, and the
    installed packages among what is imported."""
    files: dict[str, str] = {}
    packages: set[str] = set()
    homes = {name.partition(".")[0] for name in names}
    waiting = list(names)
    seen: set[str] = set()
    while waiting:
        name = waiting.pop()
        top = name.partition(".")[0]
        if name in seen or top == "rlx" or top in sys.stdlib_module_names:
            continue
        seen.add(name)
        module, path = locate(name)
        if "." in module:
            waiting.append(module.rpartition(".")[0])
        if path is None or (is_installed(path) and top not in homes):
            packages.add(top)
        elif module not in files:
            files[module] = file_digest(path)
            waiting += imports_of(path, module)
    return files, packages


def locate(name: str) -> tuple[str, Path | None]:
    """Return the innermost module that a dotted name begins with, and its Python file, if it has one. Imports nothing,
    which `find_spec` of a dotted name would."""
    top, *rest = name.split(".")
    try:
        spec = find_spec(top)
    except (ImportError, ValueError, AttributeError):
        spec = None
    if spec is None:
        return top, None
    module, path = top, python_file(Path(spec.origin)) if spec.origin else None
    folders = [Path(place) for place in spec.submodule_search_locations or ()]
    for part in rest:
        places = [place for folder in folders for place in (folder / f"{part}.py", folder / part / "__init__.py")]
        inner = next((place for place in places if place.is_file()), None)
        folders = [folder / part for folder in folders if (folder / part).is_dir()]
        if inner is None and not folders:
            break
        module, path = f"{module}.{part}", inner
    return module, path


def python_file(path: Path) -> Path | None:
    return path if path.suffix == ".py" and path.is_file() else None


def imports_of(path: Path, module: str) -> Iterator[str]:
    """Yield what a file imports, in functions too, by absolute names."""
    try:
        tree = ast.parse(path.read_bytes())
    except (SyntaxError, ValueError, OSError, RecursionError):
        return
    package = module if path.name == "__init__.py" else module.rpartition(".")[0]
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            above = package.split(".")[: len(package.split(".")) - node.level + 1] if node.level else []
            base = ".".join([*above, *([node.module] if node.module else [])])
            yield from (f"{base}.{alias.name}" for alias in node.names) if base else ()


def is_installed(path: Path) -> bool:
    """Tell whether a file belongs to an installed package or to the standard library, which have versions."""
    places = {sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")}
    return any(path.is_relative_to(place) for place in places if place)


@cache
def version_of(package: str) -> str:
    try:
        return version(package)
    except (PackageNotFoundError, ValueError):
        return ""


def file_digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def named_imports() -> list[str]:
    """Import path without what follows the current folder around: the first entry, and relative ones of PYTHONPATH."""
    said = [place for place in os.environ.get("PYTHONPATH", "").split(os.pathsep) if "PYTHONPATH" in os.environ]
    relative = {os.path.abspath(place) for place in said if not os.path.isabs(place)}
    first = set() if sys.flags.safe_path else {os.path.abspath(sys.path[0])}
    found = {os.path.abspath(place) for place in sys.path} - relative - first
    return [*found, *(place for place in said if os.path.isabs(place))]
