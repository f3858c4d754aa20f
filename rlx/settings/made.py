"""Check the result of a call against the type of its key: a class by inheritance, a base class and a Protocol also by
the form of their members."""

from __future__ import annotations

import ast
import builtins
import importlib
import inspect
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import is_dataclass
from typing import Any

from rlx.base.declared import overrides
from rlx.settings.check import ConfigError, describe, matches
from rlx.settings.signature import LISTS, Annotation, Parameter, last_word, lookup

VALUES = ("property", "declared")
"""Decorators of members that are values."""


def check_made(value: Any, target: str, parameter: Parameter, path: str) -> None:
    """Refuse what `target` made if it is none of the classes that the key's annotation names."""
    wanted = classes(parameter.annotation) if parameter.annotation is not None else ()
    mistakes = [mistake(value, target, module, node) for node, module in wanted if isinstance(node, ast.ClassDef)]
    if mistakes and all(mistakes):
        raise ConfigError(f"{path}: {mistakes[0]}")


def check_promise(callee: Any, target: str, parameter: Parameter, path: str) -> None:
    """Refuse a target before it is called, if by its class or its declared return type it makes none of the classes
    that the key's annotation names."""
    wanted = list(classes(parameter.annotation)) if parameter.annotation is not None else []
    return_types = read_promise(callee, target)
    kinds = [(node, getattr(importlib.import_module(module), last_word(node))) for node, module in wanted]
    if inspect.isclass(callee) and (lacks := abstract(callee)) and any(fits(callee, *pair) for pair in kinds):
        raise ConfigError(
            f"{path}: {target} has no {', '.join(sorted(lacks))}, which every {kinds[0][1].__name__} needs"
        )
    if (
        kinds
        and return_types is not None
        and not any(fits(each, node, kind) for each in return_types for node, kind in kinds)
    ):
        names = " or ".join(last_word(node) for node, _ in kinds)
        actual_names = " or ".join(each.__name__ for each in return_types) or "something else"
        bases = [kind for _, kind in kinds if abstract(kind)]
        hint = f": derive it, as in class {actual_names}({bases[0].__name__}) of {bases[0].__module__}" if bases else ""
        raise ConfigError(f"{path}: {no_instance(target, actual_names, names)}{hint}")


def abstract(kind: type) -> frozenset[str]:
    """Names of the members that a class must define and does not."""
    return getattr(kind, "__abstractmethods__", frozenset())


def read_promise(callee: Any, target: str) -> list[type] | None:
    """Classes of which a call's result is one, as the source declares; empty for what has no source to read. None for
    a function that declares nothing, of which the result alone tells."""
    if inspect.isclass(callee):
        return [callee]
    if not inspect.isfunction(callee):
        return []
    node = lookup(callee.__module__, callee.__qualname__)
    if not isinstance(node, ast.FunctionDef) or node.returns is None:
        return None
    returned = Annotation(node.returns, callee.__module__)
    declared = [
        getattr(importlib.import_module(module), last_word(class_node)) for class_node, module in classes(returned)
    ]
    name, _ = returned.opened()
    return declared or ([getattr(builtins, name)] if inspect.isclass(getattr(builtins, name, None)) else None)


def fits(candidate: type, node: ast.AST, kind: type) -> bool:
    """Return whether a class may be of another one: by inheritance, or by some member of a Protocol."""
    if not isinstance(node, ast.ClassDef) or candidate is kind:
        return True
    if not is_protocol(node):
        return issubclass(candidate, kind)
    members = [child.name for child in node.body if isinstance(child, ast.FunctionDef)]
    field_names = {name for each in candidate.__mro__ for name in vars(each).get("__annotations__", {})}
    return hasattr(candidate, "__getattr__") or any(name in field_names or hasattr(candidate, name) for name in members)


def classes(annotation: Annotation) -> Iterator[Annotation]:
    """The classes an annotation names, by whatever name."""
    name, inner = annotation.opened()
    if name == "class":
        yield from inner
    for each in inner if name == "or" else ():
        yield from classes(each)


def mistake(value: Any, target: str, module: str, wanted: ast.ClassDef) -> str:
    """Why a value is not of a class; empty if it is."""
    if is_protocol(wanted):
        return next(missing(value, target, module, wanted), "")
    kind = getattr(importlib.import_module(module), wanted.name)
    if not isinstance(value, kind):
        return not_one(value, target, wanted)
    members = [node for node in wanted.body if isinstance(node, ast.FunctionDef) and not node.name.startswith("_")]
    methods = [node for node in members if abstract(kind) and overrides(value, kind, node.name)]
    return next(unlike(value, target, module, methods), "")


def is_protocol(node: ast.ClassDef) -> bool:
    return any(ast.unparse(base).split(".")[-1].split("[")[0] == "Protocol" for base in node.bases)


def not_one(value: Any, target: str, wanted: ast.ClassDef) -> str:
    return no_instance(target, type(value).__name__, wanted.name)


def no_instance(target: str, actual: str, wanted: str) -> str:
    return f"{target} makes {actual}, which is not {'an' if wanted[0] in 'AEIOU' else 'a'} {wanted}"


def missing(value: Any, target: str, module: str, wanted: ast.ClassDef) -> Iterator[str]:
    """Yield what a value lacks of a Protocol, or has in another form."""
    members = [node for node in wanted.body if isinstance(node, ast.FunctionDef)]
    lacks = [node.name for node in members if not hasattr(value, node.name)]
    if len(lacks) == len(members):
        yield not_one(value, target, wanted)
    if lacks:
        yield f"{target} has no {', '.join(lacks)}, which every {wanted.name} needs"
    yield from unlike(value, target, module, members)


def unlike(value: Any, target: str, module: str, members: Sequence[ast.FunctionDef]) -> Iterator[str]:
    """Yield the members of a value that have another form than its base class or Protocol gives them."""
    for node in members:
        if any(isinstance(mark, ast.Name) and mark.id in VALUES for mark in node.decorator_list):
            yield from misread(getattr(value, node.name), f"{target}.{node.name}", module, node)
        else:
            yield from misshapen(getattr(value, node.name), f"{target}.{node.name}", node)


def misread(member: Any, name: str, module: str, node: ast.FunctionDef) -> Iterator[str]:
    """A member that is a value and has the wrong type."""
    plain = as_calls(member)
    wanted = None if node.returns is None else Annotation(node.returns, module)
    if wanted is not None and (callable(member) or not matches(wanted, plain)):
        description = "a method" if callable(member) else repr(member)[:40]
        yield f"{name} is {description}: expected {describe_member(wanted)}"


def describe_member(annotation: Annotation) -> str:
    """Describe what a Python class has there, not what a configuration would."""
    name, inner = annotation.opened()
    kind, nodes = inner[0].opened() if name in LISTS and inner else ("", [])
    if kind != "class":
        return describe(annotation)
    item = last_word(nodes[0].node)
    return f"a tuple of {item}, as in ({item}(…),)"


def as_calls(value: Any) -> Any:
    """Return a value, or the items of a tuple or a mapping, as a configuration would have them."""
    if isinstance(value, tuple):
        return [as_call(item) for item in value]
    if isinstance(value, Mapping):
        return {key: as_call(item) for key, item in value.items()}
    return as_call(value)


def as_call(item: Any) -> Any:
    """Return an instance of a dataclass as a configuration would have it."""
    return {"_target_": type(item).__name__} if is_dataclass(item) else item


def misshapen(member: Any, name: str, node: ast.FunctionDef) -> Iterator[str]:
    """A member that is called and does not take what it is given."""
    _, *arguments = [argument.arg for argument in (*node.args.posonlyargs, *node.args.args)]
    if not callable(member):
        yield f"{name} is not a method"
        return
    try:
        inspect.signature(member).bind(*arguments)
    except TypeError:
        yield f"{name} must take ({', '.join(arguments)})"
    except ValueError:  # it has no signature to be read
        return
