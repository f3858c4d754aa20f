"""Provenance: everything that a result depends on beside its configuration and its hardware.

A record holds digests of code, versions of distributions, the interpreter and the edition of the data. Caches, resume,
compare and reports read this record alone. Code is all of rlx, and every module that the configuration names, with its
imports. An import is followed within its project: files on PYTHONPATH or in an editable install, rlx's own modules, and
the rest of the package that is named. Any other installed package counts by its version, together with its
requirements; also by its files, if it was installed from a repository or a folder, where other code may have the same
version. An installed module without a distribution counts by its file. Files beside a user's module count, if the
module names them in a string: `Path(__file__).parent / "words.txt"`.
"""

from __future__ import annotations

import ast
import hashlib
import json
import os
import platform
import re
import sys
import sysconfig
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cache
from importlib.machinery import EXTENSION_SUFFIXES
from importlib.metadata import PackageNotFoundError, distribution, packages_distributions, requires, version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

PACKAGE = Path(__file__).resolve().parents[1]
CODE = (".py", ".txt")
"""Suffixes of the files that rlx consists of; its models count by their own folders."""
SHARED = ("torch", "transformers", "tokenizers", "peft", "numpy", "safetensors", "vllm", "deepspeed")
"""Modules that all results depend on, if installed."""
NAMING = ("_target_", "adapter")
"""Keys of a configuration whose values name modules, or something in one."""
LATE = ("import_module", "find_spec", "__import__")
"""Functions whose first argument names a module."""
REQUIREMENT = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
LARGEST_NAMED = 2**28
"""Bytes of the largest file beside a module that counts."""
ITSELF = "rlx"
"""Name under which a record holds the digest of rlx's own source."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Provenance:
    """Code, packages, interpreter and data of one result."""

    code: Mapping[str, str] = field(default_factory=dict)
    """Digest of each module; rlx's own modules count together, as `rlx`."""
    packages: Mapping[str, str] = field(default_factory=dict)
    """Version of each distribution."""
    interpreter: str = ""
    data: str = ""
    """Edition of the data that the environment reads; empty where it reads none."""

    @property
    def digest(self) -> str:
        """Short name for the record."""
        text = json.dumps(asdict(self), sort_keys=True, ensure_ascii=True)
        return hashlib.sha256(text.encode()).hexdigest()[:16]


def provenance_of(config: Any, data: str = "") -> Provenance:
    """Build the record of results of a configuration, whose environment reads `data`."""
    code, modules = follow(sorted(set(named_in(config))))
    return Provenance(
        code={**dict(sorted(code.items())), ITSELF: package_digest()},
        packages={ITSELF: version_of(ITSELF), **versions_of(modules | set(SHARED))},
        interpreter=f"{platform.python_implementation()} {platform.python_version()}",
        data=data,
    )


def changes(before: Provenance, after: Provenance) -> Iterator[str]:
    """Name every part of a record that differs from another: module, package with its versions, interpreter, data."""
    for name in sorted(before.code.keys() | after.code.keys(), key=lambda name: (name == ITSELF, name)):
        if before.code.get(name) != after.code.get(name):
            yield f"code of {name}"
    for name in sorted(before.packages.keys() | after.packages.keys()):
        old, new = (record.packages.get(name, "none") for record in (before, after))
        if old != new:
            yield f"{name} {old} -> {new}"
    if before.interpreter != after.interpreter:
        yield f"{before.interpreter} -> {after.interpreter}"
    if before.data != after.data:
        yield "data of env"


def conflicts(records: Sequence[Provenance]) -> tuple[str, ...]:
    """Name what differs between records of several results, among the parts that both records of a pair have."""
    first, *others = records or [Provenance()]
    return tuple(dict.fromkeys(text for other in others for text in changes(*shared_parts(first, other))))


def shared_parts(first: Provenance, second: Provenance) -> tuple[Provenance, Provenance]:
    """Reduce two records to the modules and packages that both have."""
    code, packages = first.code.keys() & second.code.keys(), first.packages.keys() & second.packages.keys()
    reduced = [
        replace(
            record,
            code={name: record.code[name] for name in code},
            packages={name: record.packages[name] for name in packages},
        )
        for record in (first, second)
    ]
    return reduced[0], reduced[1]


def main_versions(provenance: Provenance) -> str:
    """Return the interpreter and the versions of rlx and of the packages that every result depends on."""
    packages = ((name, provenance.packages[name]) for name in (ITSELF, *SHARED) if name in provenance.packages)
    return ", ".join([provenance.interpreter, *(f"{name} {text}" for name, text in packages)])


def to_record(provenance: Provenance) -> dict[str, Any]:
    """Return a record as JSON holds it."""
    return asdict(provenance)


def from_record(value: Any) -> Provenance:
    """Read a record; AttributeError, KeyError or TypeError where the value is none."""
    return Provenance(
        code=text_map(value["code"]),
        packages=text_map(value["packages"]),
        interpreter=str(value["interpreter"]),
        data=str(value["data"]),
    )


def text_map(value: Any) -> dict[str, str]:
    return {str(name): str(text) for name, text in value.items()}


@cache
def package_digest() -> str:
    """Return the digest of rlx's source at the first call."""
    digest = hashlib.sha256()
    for path in sorted(path for path in PACKAGE.rglob("*") if path.suffix in CODE):
        digest.update(f"{path.relative_to(PACKAGE)}\0{file_digest(path)}\0".encode())
    return digest.hexdigest()[:16]


def named_in(tree: Any) -> Iterator[str]:
    """Yield the dotted names of code in a configuration."""
    if isinstance(tree, Mapping):
        yield from (str(tree[key]) for key in NAMING if isinstance(tree.get(key), str))
        for value in tree.values():
            yield from named_in(value)
    elif isinstance(tree, Sequence) and not isinstance(tree, str):
        for value in tree:
            yield from named_in(value)


def follow(names: Sequence[str]) -> tuple[dict[str, str], set[str]]:
    """Return the digests of a user's source files behind dotted names and their imports, by module, and the top modules
    of installed packages among the imports. rlx's own modules are followed for their imports alone."""
    files: dict[str, str] = {}
    packages: set[str] = set()
    homes = {name.partition(".")[0] for name in names} | {ITSELF}
    waiting, visited = list(names), set[str]()
    while waiting:
        name = waiting.pop()
        top = name.partition(".")[0]
        if name in visited or top in sys.stdlib_module_names:
            continue
        visited.add(name)
        module, path = locate(name)
        if top != ITSELF and "." in module:
            waiting.append(module.rpartition(".")[0])
        if path is None or (is_installed(path) and top not in homes and has_version(top)):
            packages.add(top)
            continue
        if module in visited and module != name:
            continue
        visited.add(module)
        if top != ITSELF:
            files[module] = file_digest(path)[:16]
            files |= {
                f"{module}: {file.relative_to(path.parent)}": file_digest(file)[:16] for file in named_files(path)
            }
        waiting += imports_of(path, module)
    return files, packages - {ITSELF}


def locate(name: str) -> tuple[str, Path | None]:
    """Return the innermost module that a dotted name begins with, and its file of Python or of machine code, if it has
    one. Imports nothing, which `find_spec` of a dotted name would."""
    top, *rest = name.split(".")
    try:
        spec = find_spec(top)
    except (ImportError, ValueError, AttributeError):
        spec = None
    if spec is None:
        return top, None
    module, path = top, code_file(Path(spec.origin)) if spec.origin else None
    folders = [Path(place) for place in spec.submodule_search_locations or ()]
    for part in rest:
        names = (f"{part}.py", f"{part}/__init__.py", *(f"{part}{suffix}" for suffix in EXTENSION_SUFFIXES))
        places = [folder / name for folder in folders for name in names]
        inner = next((place for place in places if place.is_file()), None)
        folders = [folder / part for folder in folders if (folder / part).is_dir()]
        if inner is None and not folders:
            break
        module, path = f"{module}.{part}", inner
    return module, path


def code_file(path: Path) -> Path | None:
    return path if path.name.endswith((".py", *EXTENSION_SUFFIXES)) and path.is_file() else None


def named_files(path: Path) -> list[Path]:
    """Return the files beside a module, or below its folder, that strings of the module name, without code."""
    content = read_source(path)
    places = sorted({path.parent / name for name in named_paths(content)})
    return [place for place in places if is_data(place)]


def is_data(path: Path) -> bool:
    """Tell whether a path leads to a file of sane size that is no code."""
    try:
        return path.is_file() and path.suffix not in (".py", ".pyc") and path.stat().st_size <= LARGEST_NAMED
    except (OSError, ValueError):
        return False


@cache
def named_paths(content: bytes) -> frozenset[str]:
    """Return the strings of a module that may be relative paths, also joined ones: `HERE / "data" / "a.txt"`."""
    tree = parse(content)
    joined = (strings_joined(node) for node in ast.walk(tree)) if tree is not None else ()
    return frozenset(text for text in joined if text and len(text) < 256 and not text.startswith(("/", ".", "~")))


def strings_joined(node: ast.AST) -> str:
    """Return the path of a string, or of the strings at the end of a chain of `/`; empty for another node."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div):
        last = strings_joined(node.right)
        return "/".join(filter(None, (strings_joined(node.left), last))) if last else ""
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else ""


def imports_of(path: Path, module: str) -> tuple[str, ...]:
    """Return the absolute names of a file's imports, those in functions too."""
    return parsed_imports(read_source(path), module, path.name == "__init__.py")


def read_source(path: Path) -> bytes:
    """Return the source of a module; nothing for machine code, or for a file that cannot be read."""
    try:
        return path.read_bytes() if path.suffix == ".py" else b""
    except OSError:
        return b""


def parse(content: bytes) -> ast.Module | None:
    try:
        return ast.parse(content)
    except (SyntaxError, ValueError, RecursionError):
        return None


@cache
def parsed_imports(content: bytes, module: str, is_package: bool) -> tuple[str, ...]:
    tree = parse(content)
    if tree is None:
        return ()
    package = module if is_package else module.rpartition(".")[0]
    unseen = {id(inner) for node in ast.walk(tree) if is_type_checking(node) for inner in ast.walk(node)}
    return tuple(name for node in ast.walk(tree) if id(node) not in unseen for name in names_of(node, package))


def is_type_checking(node: ast.AST) -> bool:
    """Tell whether a node holds imports that only a type checker sees."""
    return isinstance(node, ast.If) and ast.unparse(node.test) in ("TYPE_CHECKING", "typing.TYPE_CHECKING")


def names_of(node: ast.AST, package: str) -> Iterator[str]:
    """Yield the modules that a statement imports, or that a call names: `import_module("x")`, `find_spec("x")`."""
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names)
    elif isinstance(node, ast.ImportFrom):
        above = package.split(".")[: len(package.split(".")) - node.level + 1] if node.level else []
        base = ".".join([*above, *([node.module] if node.module else [])])
        yield from (f"{base}.{alias.name}" for alias in node.names) if base else ()
    elif isinstance(node, ast.Call) and node.args and ast.unparse(node.func).rpartition(".")[2] in LATE:
        first = node.args[0].values[0] if isinstance(node.args[0], ast.JoinedStr) else node.args[0]
        if isinstance(first, ast.Constant) and isinstance(first.value, str) and first.value.strip("."):
            yield first.value.strip(".")


def is_installed(path: Path) -> bool:
    """Tell whether a file belongs to an installed package or to the standard library, which have versions."""
    places = {sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")}
    return any(path.is_relative_to(place) for place in places if place)


def versions_of(modules: Iterable[str]) -> dict[str, str]:
    """Return the versions of the distributions behind top modules, and of all distributions that these require."""
    waiting = [name for module in modules for name in distributions_of(module)]
    versions: dict[str, str] = {}
    while waiting:
        name = normalise(waiting.pop())
        if name not in versions and (text := version_of(name)):
            versions[name] = text + files_of(name)
            waiting += requirements_of(name)
    return dict(sorted(versions.items()))


def has_version(module: str) -> bool:
    """Tell whether an installed distribution has this top module."""
    return any(version_of(name) for name in distributions_of(module))


def distributions_of(module: str) -> list[str]:
    """Return the distributions that a top module may be part of: PyYAML for yaml."""
    return [*distributions_by_module().get(module, ()), module]


@cache
def distributions_by_module() -> Mapping[str, list[str]]:
    return packages_distributions()


@cache
def requirements_of(name: str) -> tuple[str, ...]:
    """Return the names of a distribution's requirements without an extra, installed or not."""
    try:
        lines = requires(name) or []
    except (PackageNotFoundError, ValueError):
        return ()
    return tuple(match.group() for line in lines if "extra ==" not in line and (match := REQUIREMENT.match(line)))


def normalise(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


@cache
def version_of(package: str) -> str:
    """Return the version of a distribution; empty if it is not installed."""
    try:
        return version(package)
    except (PackageNotFoundError, ValueError):
        return ""


@cache
def files_of(package: str) -> str:
    """Return a digest of a distribution's files, as ` (files 1a2b3c4d)`, if it was installed from a repository, a
    folder or an archive: other code may have the same version there. Empty for one from an index, and for an editable
    one, whose modules count by themselves."""
    try:
        installed = distribution(package)
        origin, record = installed.read_text("direct_url.json"), installed.read_text("RECORD")
        editable = json.loads(origin or "{}").get("dir_info", {}).get("editable")
    except (PackageNotFoundError, ValueError, AttributeError, RecursionError, OSError):
        return ""
    if not origin or not record or editable:
        return ""
    lines = "\n".join(sorted(line for line in record.splitlines() if ".dist-info/" not in line))
    return f" (files {hashlib.sha256(lines.encode()).hexdigest()[:8]})"


def file_digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def named_imports() -> list[str]:
    """Return the import path without entries that follow the current folder: the first, and relative ones of
    PYTHONPATH."""
    entries = [place for place in os.environ.get("PYTHONPATH", "").split(os.pathsep) if "PYTHONPATH" in os.environ]
    relative = {os.path.abspath(place) for place in entries if not os.path.isabs(place)}
    first = set() if sys.flags.safe_path else {os.path.abspath(sys.path[0])}
    places = {os.path.abspath(place) for place in sys.path} - relative - first
    return [*places, *(place for place in entries if os.path.isabs(place))]
