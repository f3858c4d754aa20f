"""Check that a call makes what its key stands for: a class by inheritance, a base class and a Protocol by the form of
their members too."""

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


def check_promise(found: Any, target: str, parameter: Parameter, path: str) -> None:
    """Refuse a target before it is called, if by its class or its declared return type it makes none of the classes
    that the key's annotation names."""
    wanted = list(classes(parameter.annotation)) if parameter.annotation is not None else []
    made = read_promise(found, target)
    kinds = [(node, getattr(importlib.import_module(module), last_word(node))) for node, module in wanted]
    if inspect.isclass(found) and (lacks := abstract(found)) and any(fits(found, *pair) for pair in kinds):
        raise ConfigError(
            f"{path}: {target} has no {', '.join(sorted(lacks))}, which every {kinds[0][1].__name__} needs"
        )
    if kinds and made is not None and not any(fits(each, node, kind) for each in made for node, kind in kinds):
        names = " or ".join(last_word(node) for node, _ in kinds)
        what = " or ".join(each.__name__ for each in made) or "something else"
        own = [kind for _, kind in kinds if abstract(kind)]
        hint = f": derive it, as in class {what}({own[0].__name__}) of {own[0].__module__}" if own else ""
        raise ConfigError(f"{path}: {no_instance(target, what, names)}{hint}")


def abstract(made: type) -> frozenset[str]:
    """Names of the members that a class must define and does not."""
    return getattr(made, "__abstractmethods__", frozenset())


def read_promise(found: Any, target: str) -> list[type] | None:
    """Classes of which a call's result is one, as the source declares; empty for what has no source to read. None for
    a function that declares nothing, of which the result alone tells."""
    if inspect.isclass(found):
        return [found]
    if not inspect.isfunction(found):
        return []
    node = lookup(found.__module__, found.__qualname__)
    if not isinstance(node, ast.FunctionDef) or node.returns is None:
        return None
    returned = Annotation(node.returns, found.__module__)
    declared = [getattr(importlib.import_module(module), last_word(one)) for one, module in classes(returned)]
    name, _ = returned.opened()
    return declared or ([getattr(builtins, name)] if inspect.isclass(getattr(builtins, name, None)) else None)


def fits(made: type, node: ast.AST, kind: type) -> bool:
    """Return whether a class may be of another one: by inheritance, or by some member of a Protocol."""
    if not isinstance(node, ast.ClassDef) or made is kind:
        return True
    if not is_protocol(node):
        return issubclass(made, kind)
    members = [child.name for child in node.body if isinstance(child, ast.FunctionDef)]
    own = {name for each in made.__mro__ for name in vars(each).get("__annotations__", {})}
    return hasattr(made, "__getattr__") or any(name in own or hasattr(made, name) for name in members)


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
    own = [node for node in members if abstract(kind) and overrides(value, kind, node.name)]
    return next(unlike(value, target, module, own), "")


def is_protocol(node: ast.ClassDef) -> bool:
    return any(ast.unparse(base).split(".")[-1].split("[")[0] == "Protocol" for base in node.bases)


def not_one(value: Any, target: str, wanted: ast.ClassDef) -> str:
    return no_instance(target, type(value).__name__, wanted.name)


def no_instance(target: str, made: str, wanted: str) -> str:
    return f"{target} makes {made}, which is not {'an' if wanted[0] in 'AEIOU' else 'a'} {wanted}"


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


def misread(found: Any, name: str, module: str, node: ast.FunctionDef) -> Iterator[str]:
    """A member that is a value and has the wrong type."""
    plain = as_calls(found)
    wanted = None if node.returns is None else Annotation(node.returns, module)
    if wanted is not None and (callable(found) or not matches(wanted, plain)):
        given = "a method" if callable(found) else repr(found)[:40]
        yield f"{name} is {given}: expected {describe_member(wanted)}"


def describe_member(annotation: Annotation) -> str:
    """Describe what a Python class has there, not what a configuration would."""
    name, inner = annotation.opened()
    kind, nodes = inner[0].opened() if name in LISTS and inner else ("", [])
    if kind != "class":
        return describe(annotation)
    item = last_word(nodes[0].node)
    return f"a tuple of {item}, as in ({item}(…),)"


def as_calls(found: Any) -> Any:
    """Return a value, or the items of a tuple or a mapping, as a configuration would have them."""
    if isinstance(found, tuple):
        return [as_call(item) for item in found]
    if isinstance(found, Mapping):
        return {key: as_call(item) for key, item in found.items()}
    return as_call(found)


def as_call(item: Any) -> Any:
    """Return an instance of a dataclass as a configuration would have it."""
    return {"_target_": type(item).__name__} if is_dataclass(item) else item


def misshapen(found: Any, name: str, node: ast.FunctionDef) -> Iterator[str]:
    """A member that is called and does not take what it is given."""
    _, *given = [argument.arg for argument in (*node.args.posonlyargs, *node.args.args)]
    if not callable(found):
        yield f"{name} is not a method"
        return
    try:
        inspect.signature(found).bind(*given)
    except TypeError:
        yield f"{name} must take ({', '.join(given)})"
    except ValueError:  # it has no signature to be read
        return
