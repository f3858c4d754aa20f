"""Compare a resolved configuration with the signatures it calls; the first mistake is a ConfigError of one line."""

from __future__ import annotations

import ast
import difflib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from rlx.config.signature import Parameter, Signature, resolve, signature

Tree = Mapping[str, Any]

SPECIAL = ("_target_", "_partial_")
MISSING = "???"
SCALARS: Mapping[str, tuple[type, ...]] = {"int": (int,), "float": (int, float), "str": (str,), "Path": (str,)}
LISTS = ("list", "tuple", "Sequence", "Iterable", "Collection", "set", "frozenset")
MAPPINGS = ("dict", "Mapping")
WORDS = {
    "int": "an integer",
    "float": "a number",
    "str": "text",
    "bool": "true or false",
    "Path": "a path",
    **dict.fromkeys(LISTS, "a list"),
    **dict.fromkeys(MAPPINGS, "names with values"),
}


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
    run = signature("rlx.run.run.Run")
    for key in keys:
        _check_parameter(tree, run.parameters[key], run, "")


def refuse_strangers(value: Any, known: set[str], path: str) -> None:
    """Every `_target_` is one of the `known`."""
    if isinstance(value, dict):
        target = value.get("_target_")
        if target is not None and target not in known:
            raise ConfigError(
                f"{path}._target_={target} is not named by any config file here; -cd DIR names a folder of them"
            )
        for key, child in value.items():
            refuse_strangers(child, known, f"{path}.{key}".lstrip("."))
    elif isinstance(value, list):
        for index, child in enumerate(value):
            refuse_strangers(child, known, f"{path}[{index}]")


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
    hint = near(str(value), choices) if choices else f": expected {describe(parameter.annotation, found.module)}"
    raise ConfigError(f"{where}={show(value)}{' is not an option' if choices else ''}{hint}")


def show(value: Any) -> str:
    """A value as an override would spell it, on one short line."""
    return spell(value).encode("unicode_escape").decode()[:80]


def spell(value: Any) -> str:
    if isinstance(value, list):
        return f"[{','.join(map(spell, value))}]"
    if isinstance(value, Mapping):
        return f"{{{','.join(f'{key}:{spell(child)}' for key, child in value.items())}}}"
    words = {None: "null", True: "true", False: "false"}
    return words[value] if value is None or isinstance(value, bool) else str(value)


def describe(annotation: ast.AST, module: str) -> str:
    """What an annotation asks for, in words."""
    if isinstance(annotation, ast.Constant):
        inner = ast.parse(annotation.value, mode="eval").body if isinstance(annotation.value, str) else None
        return "null" if inner is None else describe(inner, module)
    if isinstance(annotation, ast.BinOp):
        return f"{describe(annotation.left, module)} or {describe(annotation.right, module)}"
    if isinstance(annotation, ast.Subscript):
        return _describe_subscript(annotation, module)
    return _describe_name(ast.unparse(annotation), module)


def _describe_name(name: str, module: str) -> str:
    if name.split(".")[-1] in WORDS:
        return WORDS[name.split(".")[-1]]
    found = resolve(module, name)
    if found is None or isinstance(found[1], ast.ClassDef):
        return f"the keys of {name.split('.')[-1]}, with a _target_"
    return describe(found[1], found[0])


def _describe_subscript(annotation: ast.Subscript, module: str) -> str:
    name, inner = _opened(annotation)
    if name == "Literal":
        return " or ".join(str(option) for option in literals(annotation, module))
    if name == "Optional":
        return f"{describe(inner[0], module)} or null"
    if name in LISTS:
        many = "" if len(inner) == 1 or _is_ellipsis(inner[-1]) else f"{len(inner)} "
        return f"a list of {many}{_plural(describe(inner[0], module))}"
    if name in MAPPINGS:
        return f"names, each with {describe(inner[-1], module)}"
    return " or ".join(describe(item, module) for item in inner)


def _plural(words: str) -> str:
    """`an integer` as `integers`, `text` as `words`."""
    return "words" if words == "text" else f"{words.split(' ', 1)[-1]}s" if words[:2] in ("a ", "an") else words


def _opened(annotation: ast.Subscript) -> tuple[str, list[ast.expr]]:
    """`tuple[int, str]` as its last name and what stands in the brackets."""
    inner = annotation.slice.elts if isinstance(annotation.slice, ast.Tuple) else [annotation.slice]
    return ast.unparse(annotation.value).split(".")[-1], inner


def _is_ellipsis(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is Ellipsis


def matches(annotation: ast.AST, value: Any, module: str) -> bool:
    """Whether a YAML value fits an annotation; names that cannot be resolved accept anything."""
    if isinstance(annotation, ast.Constant):
        if isinstance(annotation.value, str):
            return matches(ast.parse(annotation.value, mode="eval").body, value, module)
        return annotation.value is None and value is None
    if isinstance(annotation, ast.BinOp):
        return matches(annotation.left, value, module) or matches(annotation.right, value, module)
    if isinstance(annotation, ast.Attribute | ast.Name):
        return _matches_name(ast.unparse(annotation), value, module)
    if isinstance(annotation, ast.Subscript):
        return _matches_subscript(annotation, value, module)
    return True


def _is_scalar(value: Any, kinds: tuple[type, ...]) -> bool:
    """Of one of these kinds; nan is no number."""
    return isinstance(value, kinds) and not isinstance(value, bool) and value == value


def _matches_name(dotted: str, value: Any, module: str) -> bool:
    name = dotted.split(".")[-1]
    if name in ("Any", "object"):
        return True
    if name == "bool":
        return isinstance(value, bool)
    if name in SCALARS:
        return _is_scalar(value, SCALARS[name])
    if name in LISTS:
        return isinstance(value, list)
    if name in MAPPINGS:
        return isinstance(value, Mapping)
    found = resolve(module, dotted)
    if found is None:
        return True
    if isinstance(found[1], ast.ClassDef):
        return isinstance(value, Mapping) and "_target_" in value
    return matches(found[1], value, found[0])


def _matches_subscript(annotation: ast.Subscript, value: Any, module: str) -> bool:
    name, inner = _opened(annotation)
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
    if len(inner) == 1 or (len(inner) == 2 and _is_ellipsis(inner[1])):
        return all(matches(inner[0], item, module) for item in value)
    return len(inner) == len(value) and all(matches(a, item, module) for a, item in zip(inner, value, strict=True))


def literals(annotation: ast.AST, module: str) -> list[Any]:
    """The options of an annotation that is (or names) a Literal."""
    if isinstance(annotation, ast.Name | ast.Attribute):
        found = resolve(module, ast.unparse(annotation))
        return literals(found[1], found[0]) if found is not None else []
    if isinstance(annotation, ast.BinOp):
        return literals(annotation.left, module) + literals(annotation.right, module)
    name, inner = _opened(annotation) if isinstance(annotation, ast.Subscript) else ("", [])
    return [item.value for item in inner if isinstance(item, ast.Constant)] if name == "Literal" else []
