"""Defaults of a configuration: each stands once, in the source of the parameter that takes it.

The files of options hold only what differs. So a file's mapping with a `_target_` is completed, when it is read, with
the defaults of the target's parameters.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Mapping
from typing import Any

from rlx.settings.signature import LISTS, Annotation, Parameter, resolve, signature

NO_VALUE = ...
"""Result for a default that is no plain value; it equals no value of a configuration."""


def add_defaults(value: Any, below: Any) -> Any:
    """Return a file's value with the defaults of all calls in it, except for keys that `below` has: values of the files
    that this file builds on."""
    if isinstance(value, list):
        return [add_defaults(item, None) for item in value]
    if not isinstance(value, Mapping):
        return value
    keys = below if isinstance(below, Mapping) else {}
    tree = {key: add_defaults(child, keys.get(key)) for key, child in value.items()}
    return {**{key: default for key, default in defaults_of(value).items() if key not in keys}, **tree}


def defaults_of(call: Mapping[str, Any]) -> dict[str, Any]:
    """Return the target of a call and the defaults of its parameters; empty for a mapping that is no call."""
    target = call.get("_target_")
    if not isinstance(target, str):
        return {}
    try:
        parameters = signature(target).parameters
    except LookupError:  # the check of the configuration tells what is wrong with it
        return {}
    values = {name: call.get(name, default_of(parameter)) for name, parameter in parameters.items()}
    return {"_target_": target} | {name: value for name, value in values.items() if value is not NO_VALUE}


def default_of(parameter: Parameter) -> Any:
    """Return a parameter's default as a file would have it; NO_VALUE for a default that is no plain value."""
    if parameter.default is None or (parameter.annotation and is_list_of_objects(parameter.annotation)):
        return NO_VALUE
    return plain_value(parameter.default)


def is_list_of_objects(annotation: Annotation) -> bool:
    """Tell whether a type is a list of a class's instances, which code sets and no file."""
    name, inner = annotation.opened()
    return name in LISTS and bool(inner) and inner[0].opened()[0] == "class"


def plain_value(expression: Annotation) -> Any:
    """Return the value of a literal, or of a constant that is one; NO_VALUE for any other expression."""
    node = expression.node
    if isinstance(node, ast.Name | ast.Attribute):
        constant = resolve(expression.module, ast.unparse(node))
        node = node if constant is None else constant.node
    try:
        return without_tuples(ast.literal_eval(node))
    except (ValueError, TypeError, RecursionError):
        return NO_VALUE


def without_tuples(value: Any) -> Any:
    """Return a value with lists for its tuples, as a file has them."""
    if isinstance(value, Mapping):
        return {key: without_tuples(item) for key, item in value.items()}
    return [without_tuples(item) for item in value] if isinstance(value, list | tuple) else value


def places_of(paths: Iterable[str]) -> dict[str, Any]:
    """Return a tree with an empty mapping at each of these places, such as /model/recipe or parts.first.env."""
    tree: dict[str, Any] = {}
    for path in paths:
        node = tree
        for key in path.strip("/").replace("/", ".").split("."):
            node = node.setdefault(key, {})
    return tree
