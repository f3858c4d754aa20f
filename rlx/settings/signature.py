"""Signatures of `_target_`s, read from source. A check of a configuration neither runs nor imports its targets.

So `rlx plan` needs no torch, and a mistake is refused before any heavy import.
"""

from __future__ import annotations

import ast
import importlib
import importlib.util
import inspect
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, NamedTuple

Scope = Mapping[str, ast.AST]
"""Definitions of a module's top level by name: classes, functions, assigned expressions and imports."""

NOT_FIELDS = ("ClassVar", "KW_ONLY", "InitVar")
LISTS = ("list", "tuple", "Sequence", "Iterable", "Collection", "set", "frozenset")
MAPPINGS = ("dict", "Mapping")
PLAIN = (*LISTS, *MAPPINGS, "int", "float", "str", "bool", "Path", "Any", "object")
"""Types recognised by their name alone, from any module."""
EMPTY: Mapping[str, ast.expr] = {"dict": ast.Dict(keys=[], values=[]), "list": ast.List(elts=[])}
"""Values of factories that make nothing else."""
ENTRY = re.compile(r"    (\w+): (.*)")
"""An entry of `Args:`: the name of a parameter, and its meaning."""


class Annotation(NamedTuple):
    """Type expression from source, and the module that resolves its names."""

    node: ast.AST
    module: str

    def opened(self) -> tuple[str, list[Annotation]]:
        """Return the type's name, with aliases followed, and the types in its brackets. A union gives `or` and its
        parts, a class `class` and its definition."""
        match self.node:
            case ast.Constant(value=str(text)):
                return self.at(ast.parse(text, mode="eval").body).opened()
            case ast.Constant(value=None):
                return "None", []
            case ast.BinOp(left=left, right=right):
                return "or", [self.at(left), self.at(right)]
            case ast.Subscript(value=value, slice=inside):
                name, inner = last_word(value), inside.elts if isinstance(inside, ast.Tuple) else [inside]
                if name in ("Annotated", "Final"):
                    return self.at(inner[0]).opened()
                more = [ast.Constant(value=None)] * (name == "Optional")
                return "or" if name in ("Optional", "Union") else name, [self.at(node) for node in [*inner, *more]]
            case ast.Name() | ast.Attribute():
                name = last_word(self.node)
                definition = None if name in PLAIN else resolve(self.module, ast.unparse(self.node))
                if definition is None:
                    return name, []
                return ("class", [definition]) if isinstance(definition.node, ast.ClassDef) else definition.opened()
        return "", []

    def at(self, node: ast.AST) -> Annotation:
        return self._replace(node=node)

    def has_mark(self, mark: str, names: frozenset[str] = frozenset()) -> bool:
        """Return True if the type, or a part of it, is `Annotated` with the constant of this name. `names` are the
        aliases followed so far, because an alias may contain itself."""
        match self.node:
            case ast.Constant(value=str(text)):
                return self.at(ast.parse(text, mode="eval").body).has_mark(mark, names)
            case ast.BinOp(left=left, right=right):
                return self.at(left).has_mark(mark, names) or self.at(right).has_mark(mark, names)
            case ast.Subscript(value=value, slice=inside) if last_word(value) != "Literal":
                inner = inside.elts if isinstance(inside, ast.Tuple) else [inside]
                types = (
                    inner if last_word(value) != "Annotated" else [n for n in inner if not isinstance(n, ast.Constant)]
                )
                return any(self.at(node).has_mark(mark, names) for node in types)
            case ast.Name() | ast.Attribute() if (name := last_word(self.node)) not in names:
                if name == mark:
                    return True
                definition = resolve(self.module, ast.unparse(self.node))
                is_alias = definition is not None and not isinstance(definition.node, ast.ClassDef)
                return definition is not None and is_alias and definition.has_mark(mark, names | {name})
        return False

    def meaning(self) -> str:
        """Return the text of `Annotated[type, "text"]`, with aliases followed; empty where there is none."""
        match self.node:
            case ast.Subscript(value=value, slice=ast.Tuple(elts=[_, ast.Constant(value=str(text))])):
                return text if last_word(value) == "Annotated" else ""
            case ast.Name() | ast.Attribute() if last_word(self.node) not in PLAIN:
                definition = resolve(self.module, ast.unparse(self.node))
                return "" if definition is None else definition.meaning()
        return ""


def last_word(node: ast.AST) -> str:
    """Return the last word of a dotted name, or a class's name."""
    return node.name if isinstance(node, ast.ClassDef) else ast.unparse(node).rpartition(".")[2]


@dataclass(frozen=True, kw_only=True)
class Parameter:
    """One keyword of a target."""

    name: str
    annotation: Annotation | None
    """Type; None where the source has none."""
    required: bool
    default: Annotation | None = None
    """Expression of the default, as `Annotation.node`; None where there is none, or a factory makes it."""
    text: str = ""
    """Meaning: the string below a field, or the entry below `Args:` in a function's docstring. A parameter without an
    entry has the text of the field of this name in the class that the function returns, or that of its type."""


@dataclass(frozen=True, kw_only=True)
class Signature:
    """Keywords of a target."""

    parameters: Mapping[str, Parameter]
    takes_any: bool = False


def signature(target: str) -> Signature:
    """Return the signature of `package.module.name`; LookupError names the missing part."""
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
    """Return the definition of `name` in `module`; None if only an import can find it."""
    if not module:
        raise LookupError(f"{name!r} is not of the form package.module.name")
    scope = read_scope(module)
    if scope is None:
        return None
    if name not in scope:
        raise LookupError(f"module {module} has no {name!r}")
    return scope[name]


def describe_lost(module: str) -> str:
    return f"there is no module {module!r}: install it, or set PYTHONPATH to the folder that holds it"


@cache
def read_scope(module: str) -> Scope | None:
    """Return the top-level names of a module's source; None for a module without source (an extension module)."""
    try:
        spec = importlib.util.find_spec(module)
    except ModuleNotFoundError as error:
        raise LookupError(describe_lost(str(error.name))) from None
    if spec is None:
        raise LookupError(describe_lost(module))
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


def resolve(module: str, name: str) -> Annotation | None:
    """Return the definition of `name` (or `other.name`) in `module`'s scope, with its module; None if unknown."""
    try:
        head, _, rest = name.partition(".")
        node = (read_scope(module) or {}).get(head)
        if isinstance(node, ast.Import):
            return _resolve_below(node.names[0], rest)
        if isinstance(node, ast.ImportFrom):
            source = f"{node.module}.{node.names[0].name}" if rest else node.module
            return resolve(source, rest or node.names[0].name) if source and not node.level else None
        return Annotation(node, module) if node is not None and not rest else None
    except LookupError:
        return None


def _resolve_below(imported: ast.alias, rest: str) -> Annotation | None:
    """Resolve `rest` below `import a.b` or `import a.b as c`: after `a`, or after `c`."""
    full_name = f"{imported.name if imported.asname else imported.name.partition('.')[0]}.{rest}"
    module, _, name = full_name.rpartition(".")
    return resolve(module, name) if name else None


def _of_function(node: ast.FunctionDef, module: str, *, skip_self: bool) -> Signature:
    plain = node.args.args[1 if skip_self else 0 :]
    num_required = len(plain) - len(node.args.defaults)
    defaults: list[ast.expr | None] = [*[None] * num_required, *node.args.defaults]
    pairs = list(zip(plain, defaults, strict=True))
    pairs += zip(node.args.kwonlyargs, node.args.kw_defaults, strict=True)
    texts = {**_texts_of_result(node, module), **read_entries(ast.get_docstring(node) or "")}
    parameters = {
        arg.arg: _parameter(arg.arg, arg.annotation, module, default is None, default, texts.get(arg.arg, ""))
        for arg, default in pairs
    }
    return Signature(parameters=parameters, takes_any=node.args.kwarg is not None)


def _texts_of_result(node: ast.FunctionDef, module: str) -> dict[str, str]:
    """Return the texts of the fields of the class that a function returns."""
    name, inner = Annotation(node.returns, module).opened() if node.returns is not None else ("", [])
    if name != "class" or not isinstance(inner[0].node, ast.ClassDef):
        return {}
    return {key: field.text for key, field in _of_class(inner[0].node, inner[0].module).parameters.items()}


def read_entries(docstring: str) -> dict[str, str]:
    """Return the entries `name: text` below the line `Args:` of a docstring."""
    entries: dict[str, str] = {}
    name = ""
    for line in docstring.partition("Args:\n")[2].splitlines():
        begun = ENTRY.fullmatch(line)
        name = begun[1] if begun else name if line.startswith(" ") else ""
        if name:
            entries[name] = f"{entries.get(name, '')} {begun[2] if begun else line.strip()}".strip()
    return entries


def _parameter(
    name: str, annotation: ast.expr | None, module: str, required: bool, default: ast.expr | None, text: str
) -> Parameter:
    kind = None if annotation is None else Annotation(annotation, module)
    return Parameter(
        name=name,
        annotation=kind,
        required=required,
        default=None if default is None else Annotation(default, module),
        text=text or ("" if kind is None else kind.meaning()),
    )


def _of_class(node: ast.ClassDef, module: str) -> Signature:
    for child in node.body:
        if isinstance(child, ast.FunctionDef) and child.name == "__init__":
            return _of_function(child, module, skip_self=True)
    parameters: dict[str, Parameter] = {}
    for base in node.bases:
        definition = resolve(module, base.id) if isinstance(base, ast.Name) else None
        if definition is not None and isinstance(definition.node, ast.ClassDef):
            parameters |= _of_class(definition.node, definition.module).parameters
    for child, below in zip(node.body, [*node.body[1:], None], strict=True):
        if isinstance(child, ast.AnnAssign) and isinstance(child.target, ast.Name) and _is_field(child):
            name, (required, default) = child.target.id, _default_of_field(child.value)
            text = _read_text(below) or (parameters[name].text if name in parameters else "")
            parameters[name] = _parameter(name, child.annotation, module, required, default, text)
    return Signature(parameters=parameters)


def _read_text(node: ast.stmt | None) -> str:
    """Return the text of a string that stands alone; empty for any other statement."""
    value = node.value if isinstance(node, ast.Expr) else None
    is_text = isinstance(value, ast.Constant) and isinstance(value.value, str)
    return " ".join(value.value.split()) if is_text else ""  # type: ignore[union-attr]


def _is_field(node: ast.AnnAssign) -> bool:
    if any(word in ast.unparse(node.annotation) for word in NOT_FIELDS):
        return False
    keywords = node.value.keywords if isinstance(node.value, ast.Call) else []
    return not any(k.arg == "init" and isinstance(k.value, ast.Constant) and not k.value.value for k in keywords)


def _default_of_field(value: ast.expr | None) -> tuple[bool, ast.expr | None]:
    """Return whether a field is required, and its default."""
    if isinstance(value, ast.Call) and last_word(value.func) == "field":
        keywords = {keyword.arg: ast.unparse(keyword.value) for keyword in value.keywords}
        default = next((keyword.value for keyword in value.keywords if keyword.arg == "default"), None)
        is_required = not keywords.keys() & {"default", "default_factory"}
        return is_required, default or EMPTY.get(keywords.get("default_factory", ""))
    return value is None, value


def _of_object(target: str, module: str, name: str) -> Signature:
    """Return the signature of an object without source, by an import: the last resort."""
    try:
        callee: Any = getattr(importlib.import_module(module), name)
        parameters = inspect.signature(callee).parameters.values()
    except (ImportError, AttributeError, TypeError, ValueError) as error:
        raise LookupError(f"{target!r} cannot be called: {error}") from None
    kinds = {parameter.kind for parameter in parameters}
    named = [p for p in parameters if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)]
    return Signature(
        parameters={p.name: Parameter(name=p.name, annotation=None, required=p.default is p.empty) for p in named},
        takes_any=inspect.Parameter.VAR_KEYWORD in kinds,
    )
