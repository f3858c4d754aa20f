"""Signatures of `_target_`s, read from source: checking a configuration never runs or imports what it names.

That keeps torch out of `rlx plan`, and refuses a mistake before anything heavy is loaded.
"""

from __future__ import annotations

import ast
import importlib
import importlib.util
import inspect
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

Scope = Mapping[str, ast.AST]
"""What a module's top level defines: classes, functions, assigned expressions and imports by name."""

NOT_FIELDS = ("ClassVar", "KW_ONLY", "InitVar")


@dataclass(frozen=True, kw_only=True)
class Parameter:
    """One keyword of a target; `annotation` is None where the source names no type."""

    name: str
    annotation: ast.expr | None
    required: bool


@dataclass(frozen=True, kw_only=True)
class Signature:
    """The keywords a target takes, and the module whose names its annotations use."""

    parameters: Mapping[str, Parameter]
    module: str
    takes_any: bool = False


def signature(target: str) -> Signature:
    """The signature of `package.module.name`; LookupError says which part does not exist."""
    module, _, name = target.rpartition(".")
    node = lookup(module, name)
    if isinstance(node, ast.ImportFrom):
        return signature(f"{node.module}.{name}")
    if isinstance(node, ast.FunctionDef):
        return _of_function(node, module, skip_self=False)
    if isinstance(node, ast.ClassDef):
        return _of_class(node, module)
    return _of_object(target, module, name)


def lookup(module: str, name: str) -> ast.AST | None:
    """What `name` is in `module`; None where only an import can tell."""
    if not module:
        raise LookupError(f"{name!r} is not of the form package.module.name")
    scope = read_scope(module)
    if scope is None:
        return None
    if name not in scope:
        raise LookupError(f"module {module} has no {name!r}")
    return scope[name]


@cache
def read_scope(module: str) -> Scope | None:
    """Top-level names of a module's source; None where it has no source (an extension module)."""
    try:
        spec = importlib.util.find_spec(module)
    except ModuleNotFoundError as error:
        raise LookupError(f"there is no module {error.name!r}") from None
    if spec is None:
        raise LookupError(f"there is no module {module!r}")
    if spec.origin is None or not spec.origin.endswith(".py"):
        return None
    with open(spec.origin, encoding="utf-8") as file:
        tree = ast.parse(file.read())
    return dict(pair for node in tree.body for pair in _definitions(node))


def _definitions(node: ast.stmt) -> Iterator[tuple[str, ast.AST]]:
    if isinstance(node, ast.ClassDef | ast.FunctionDef):
        yield node.name, node
    elif isinstance(node, ast.ImportFrom):
        for alias in node.names:
            yield alias.asname or alias.name, ast.ImportFrom(module=node.module, names=[alias], level=node.level)
    elif isinstance(node, ast.Import):
        for alias in node.names:
            yield alias.asname or alias.name.partition(".")[0], ast.Import(names=[alias])
    elif isinstance(node, ast.Assign):
        for goal in node.targets:
            if isinstance(goal, ast.Name):
                yield goal.id, node.value
    elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and node.value is not None:
        yield node.target.id, node.value
    elif isinstance(node, ast.If):
        for child in node.body:
            yield from _definitions(child)


def resolve(module: str, name: str) -> tuple[str, ast.AST] | None:
    """The module that defines `name` (or `other.name`) as `module` sees it, and the definition; None where it cannot
    be told."""
    try:
        head, _, rest = name.partition(".")
        node = (read_scope(module) or {}).get(head)
        if isinstance(node, ast.Import):
            return _resolve_below(node.names[0], rest)
        if isinstance(node, ast.ImportFrom):
            source = f"{node.module}.{node.names[0].name}" if rest else node.module
            return resolve(source, rest or node.names[0].name) if source and not node.level else None
        return (module, node) if node is not None and not rest else None
    except LookupError:
        return None


def _resolve_below(imported: ast.alias, rest: str) -> tuple[str, ast.AST] | None:
    """`rest` of what `import a.b` or `import a.b as c` made known: after `a`, or after `c`."""
    whole = f"{imported.name if imported.asname else imported.name.partition('.')[0]}.{rest}"
    module, _, name = whole.rpartition(".")
    return resolve(module, name) if name else None


def _of_function(node: ast.FunctionDef, module: str, *, skip_self: bool) -> Signature:
    plain = node.args.args[1 if skip_self else 0 :]
    num_required = len(plain) - len(node.args.defaults)
    pairs = [(arg, index < num_required) for index, arg in enumerate(plain)]
    pairs += [(arg, default is None) for arg, default in zip(node.args.kwonlyargs, node.args.kw_defaults, strict=True)]
    parameters = {a.arg: Parameter(name=a.arg, annotation=a.annotation, required=needed) for a, needed in pairs}
    return Signature(parameters=parameters, module=module, takes_any=node.args.kwarg is not None)


def _of_class(node: ast.ClassDef, module: str) -> Signature:
    for child in node.body:
        if isinstance(child, ast.FunctionDef) and child.name == "__init__":
            return _of_function(child, module, skip_self=True)
    parameters: dict[str, Parameter] = {}
    for base in node.bases:
        found = resolve(module, base.id) if isinstance(base, ast.Name) else None
        if found is not None and isinstance(found[1], ast.ClassDef):
            parameters |= _of_class(found[1], found[0]).parameters
    for child in node.body:
        if isinstance(child, ast.AnnAssign) and isinstance(child.target, ast.Name) and _is_field(child):
            name = child.target.id
            parameters[name] = Parameter(name=name, annotation=child.annotation, required=_is_required(child.value))
    return Signature(parameters=parameters, module=module)


def _is_field(node: ast.AnnAssign) -> bool:
    if any(word in ast.unparse(node.annotation) for word in NOT_FIELDS):
        return False
    keywords = node.value.keywords if isinstance(node.value, ast.Call) else []
    return not any(k.arg == "init" and isinstance(k.value, ast.Constant) and not k.value.value for k in keywords)


def _is_required(default: ast.expr | None) -> bool:
    if isinstance(default, ast.Call) and ast.unparse(default.func).split(".")[-1] == "field":
        return not any(keyword.arg in ("default", "default_factory") for keyword in default.keywords)
    return default is None


def _of_object(target: str, module: str, name: str) -> Signature:
    """Last resort, for what has no source to read: import it."""
    try:
        found: Any = getattr(importlib.import_module(module), name)
        parameters = inspect.signature(found).parameters.values()
    except (ImportError, AttributeError, TypeError, ValueError) as error:
        raise LookupError(f"{target!r} cannot be called: {error}") from None
    kinds = {parameter.kind for parameter in parameters}
    named = [p for p in parameters if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)]
    return Signature(
        parameters={p.name: Parameter(name=p.name, annotation=None, required=p.default is p.empty) for p in named},
        module=module,
        takes_any=inspect.Parameter.VAR_KEYWORD in kinds,
    )
