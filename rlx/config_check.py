"""Compare a resolved configuration with the signatures it calls; the first mistake is a ConfigError of one line."""

from __future__ import annotations

import ast
import difflib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from rlx.config_signature import Parameter, Signature, resolve, signature

Tree = Mapping[str, Any]

SPECIAL = ("_target_", "_partial_")
MISSING = "???"
SCALARS: Mapping[str, tuple[type, ...]] = {"int": (int,), "float": (int, float), "str": (str,), "Path": (str,)}
LISTS = ("list", "tuple", "Sequence", "Iterable", "Collection", "set", "frozenset")
MAPPINGS = ("dict", "Mapping")


class ConfigError(ValueError):
    """A configuration that cannot run: one line that says what, where and what to do."""

    exit_code = 2


class UnknownKeyError(ConfigError):
    """A key that is not there, and those that are in its place."""

    def __init__(self, path: str, names: Iterable[str]) -> None:
        self.path, self.names = path, sorted(names)
        super().__init__(f"unknown key {path!r}{near(path.rpartition('.')[2], self.names)}")


def near(name: str, names: Iterable[str]) -> str:
    """`; did you mean …?` with close names, or all of them where none is close."""
    known = sorted(set(names))
    close = difflib.get_close_matches(name, known, n=4, cutoff=0.5)
    if close:
        return f"; did you mean {', '.join(close)}?"
    return f"; there is {', '.join(known)}" if known else ""


def check_tree(tree: Tree, keys: Sequence[str]) -> None:
    """The root holds just these keys of a Run; every call below it fits its signature."""
    for key in tree:
        if key not in keys:
            raise UnknownKeyError(str(key), keys)
    run = signature("rlx.run.Run")
    for key in keys:
        _check_parameter(tree, run.parameters[key], run, "")
    for key in ("seed", "steps"):
        if tree[key] < 0:
            raise ConfigError(f"{key}={tree[key]}: expected an integer, at least 0")


def check_value(value: Any, path: str) -> None:
    """Check every call below `path`."""
    if value == MISSING:
        raise ConfigError(f"{path} has no value; give one with {path}=…")
    if isinstance(value, Mapping) and "_target_" in value:
        check_call(value, path)
    elif isinstance(value, Mapping):
        for key, child in value.items():
            check_value(child, f"{path}.{key}")
    elif isinstance(value, list):
        for index, child in enumerate(value):
            check_value(child, f"{path}[{index}]")


def check_call(call: Tree, path: str) -> None:
    """Compare a call's keywords and values with the signature of its `_target_`."""
    target = call["_target_"]
    if not isinstance(target, str):
        raise ConfigError(f"{path}._target_={show(target)}: expected a name such as package.module.name")
    try:
        found = signature(target)
    except LookupError as error:
        raise ConfigError(f"{path}._target_={target}: {error.args[0]}") from None
    for key in call:
        if key not in found.parameters and key not in SPECIAL and not found.takes_any:
            raise UnknownKeyError(f"{path}.{key}", found.parameters)
    for parameter in found.parameters.values():
        _check_parameter(call, parameter, found, path)


def _check_parameter(call: Tree, parameter: Parameter, found: Signature, path: str) -> None:
    where = f"{path}.{parameter.name}".lstrip(".")
    if parameter.name not in call:
        if parameter.required and not call.get("_partial_"):
            raise ConfigError(f"{where} has no value; give one with +{where}=…")
        return
    value = call[parameter.name]
    check_value(value, where)
    if parameter.annotation is None or matches(parameter.annotation, value, found.module):
        return
    choices = [str(choice) for choice in literals(parameter.annotation, found.module)]
    hint = near(str(value), choices) if choices else f": expected {describe(parameter.annotation)}"
    raise ConfigError(f"{where}={show(value)}{' is not an option' if choices else ''}{hint}")


def show(value: Any) -> str:
    """A value as an override would spell it, on one short line."""
    words = {None: "null", True: "true", False: "false"}
    text = words[value] if value is None or isinstance(value, bool) else str(value)
    return text.encode("unicode_escape").decode()[:80]


def describe(annotation: ast.expr) -> str:
    words = {"int": "an integer", "float": "a number", "str": "text", "bool": "true or false"}
    text = ast.unparse(annotation).strip("'\"")
    if text.endswith(" | None"):
        return f"{words.get(text[:-7], text[:-7])} or null"
    return words.get(text, text)


def matches(annotation: ast.AST, value: Any, module: str) -> bool:
    """Whether a YAML value fits an annotation; names that cannot be resolved accept anything."""
    if isinstance(annotation, ast.Constant):
        if isinstance(annotation.value, str):
            return matches(ast.parse(annotation.value, mode="eval").body, value, module)
        return annotation.value is None and value is None
    if isinstance(annotation, ast.BinOp):
        return matches(annotation.left, value, module) or matches(annotation.right, value, module)
    if isinstance(annotation, ast.Attribute):
        return _matches_name(annotation.attr, value, module)
    if isinstance(annotation, ast.Name):
        return _matches_name(annotation.id, value, module)
    if isinstance(annotation, ast.Subscript):
        return _matches_subscript(annotation, value, module)
    return True


def _is_scalar(value: Any, kinds: tuple[type, ...]) -> bool:
    return isinstance(value, kinds) and not isinstance(value, bool)


def _matches_name(name: str, value: Any, module: str) -> bool:
    if name == "bool":
        return isinstance(value, bool)
    if name in SCALARS:
        return _is_scalar(value, SCALARS[name])
    if name in LISTS:
        return isinstance(value, list)
    if name in MAPPINGS:
        return isinstance(value, Mapping)
    found = resolve(module, name)
    if found is None:
        return True
    if isinstance(found[1], ast.ClassDef):
        return isinstance(value, Mapping) and "_target_" in value
    return matches(found[1], value, found[0])


def _matches_subscript(annotation: ast.Subscript, value: Any, module: str) -> bool:
    name = ast.unparse(annotation.value).split(".")[-1]
    inner = annotation.slice.elts if isinstance(annotation.slice, ast.Tuple) else [annotation.slice]
    if name == "Literal":
        options = [item.value for item in inner if isinstance(item, ast.Constant)]
        return any(type(value) is type(option) and value == option for option in options)
    if name == "Optional":
        return value is None or matches(inner[0], value, module)
    if name == "Union":
        return any(matches(item, value, module) for item in inner)
    if name in ("Annotated", "Final"):
        return matches(inner[0], value, module)
    if name in LISTS:
        return isinstance(value, list) and _matches_items(inner, value, module)
    if name in MAPPINGS:
        return isinstance(value, Mapping) and all(matches(inner[-1], item, module) for item in value.values())
    return name != "Callable" or (isinstance(value, Mapping) and "_target_" in value)


def _matches_items(inner: list[ast.expr], value: list[Any], module: str) -> bool:
    ellipsis = len(inner) == 2 and isinstance(inner[1], ast.Constant) and inner[1].value is Ellipsis
    if len(inner) == 1 or ellipsis:
        return all(matches(inner[0], item, module) for item in value)
    return len(inner) == len(value) and all(matches(a, item, module) for a, item in zip(inner, value, strict=True))


def literals(annotation: ast.AST, module: str) -> list[Any]:
    """The options of an annotation that is (or names) a Literal."""
    if isinstance(annotation, ast.Name):
        found = resolve(module, annotation.id)
        return literals(found[1], found[0]) if found is not None else []
    if isinstance(annotation, ast.BinOp):
        return literals(annotation.left, module) + literals(annotation.right, module)
    if isinstance(annotation, ast.Subscript) and ast.unparse(annotation.value).split(".")[-1] == "Literal":
        inner = annotation.slice.elts if isinstance(annotation.slice, ast.Tuple) else [annotation.slice]
        return [item.value for item in inner if isinstance(item, ast.Constant)]
    return []
