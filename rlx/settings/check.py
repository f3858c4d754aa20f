"""Compare a resolved configuration with the signatures it calls; the first mistake is a ConfigError of one line."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from rlx.base.limits import MistakeError, near
from rlx.settings.signature import LISTS, MAPPINGS, Annotation, Parameter, last_word, signature

Tree = Mapping[str, Any]

SPECIAL = ("_target_", "_partial_")
MISSING = "???"
CONSTANTS = {"None": "null", "True": "true", "False": "false"}
UNQUOTED = re.compile(r"[\w./:@+-]+")
"""Text that needs no quotes in an override."""
OTHER = re.compile(r"null|true|false|nan|[+-]?(inf|[\d.][\d._]*(e[+-]?\d+)?)", re.IGNORECASE)
"""Pattern of what would be read as something else than text."""
QUOTED = re.compile(r"(\\+)(?='|$)")
"""Backslashes that a quote follows, which need another each."""
SCALARS: Mapping[str, tuple[type, ...]] = {
    "None": (type(None),),
    "bool": (bool,),
    "int": (int,),
    "float": (int, float),
    "str": (str,),
    "Path": (str,),
}
WORDS = {
    "None": "null",
    "Any": "anything",
    "object": "anything",
    "int": "an integer",
    "float": "a number",
    "str": "text",
    "bool": "true or false",
    "Path": "a path",
    **dict.fromkeys(LISTS, "a list"),
    **dict.fromkeys(MAPPINGS, "names with values"),
}


class ConfigError(MistakeError):
    """Error in a configuration; the message is one line with the mistake, its place and the remedy."""


class UnknownKeyError(ConfigError):
    """Error for an unknown key; `names` are the valid keys at the same place."""

    def __init__(self, path: str, names: Iterable[str]) -> None:
        self.path, self.names = path, sorted(names)
        super().__init__(f"unknown key {path!r}{near(path.rpartition('.')[2], self.names)}")


def check_tree(tree: Tree, keys: Sequence[str]) -> None:
    """The root holds just these keys of a Run; every call below it fits its signature."""
    for key in tree:
        if key not in keys:
            raise UnknownKeyError(str(key), keys)
    run = signature("rlx.run.run.Run")
    for key in sorted(keys, key=is_late):
        _check_parameter(tree, run.parameters[key], "")


def is_late(key: str) -> bool:
    """Tell the model from other parts, which take values of its recipe: its own keys are what the user typed."""
    return key != "model"


def check_value(value: Any, path: str) -> None:
    """Check every call below `path`."""
    if isinstance(value, str):
        check_text(value, path)
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


def check_text(text: str, path: str) -> None:
    """Refuse text that no file's name and no encoding has."""
    wrong = next((character for character in text if character == "\0" or "\ud800" <= character <= "\udfff"), None)
    if wrong is not None:
        raise ConfigError(f"{path} has the character U+{ord(wrong):04X}, which is in no text: leave it out")


def check_call(call: Tree, path: str) -> None:
    """Compare a call's keywords and values with the signature of its `_target_`."""
    target = call["_target_"]
    if not isinstance(target, str):
        raise ConfigError(f"{path}._target_={show(target)}: expected a name such as package.module.name")
    try:
        target_signature = signature(target)
    except LookupError as error:
        raise ConfigError(f"{path}._target_={target}: {error.args[0]}") from None
    for key in call:
        if key not in target_signature.parameters and key not in SPECIAL and not target_signature.takes_any:
            raise UnknownKeyError(f"{path}.{key}", target_signature.parameters)
    for parameter in target_signature.parameters.values():
        _check_parameter(call, parameter, path)


def _check_parameter(call: Tree, parameter: Parameter, path: str) -> None:
    where = f"{path}.{parameter.name}".lstrip(".")
    if parameter.name not in call:
        if parameter.required and not call.get("_partial_"):
            raise ConfigError(f"{where} has no value; give one with +{where}=…")
        return
    value = call[parameter.name]
    check_value(value, where)
    if parameter.annotation is not None:
        _require(parameter.annotation, value, where)


def _require(annotation: Annotation, value: Any, where: str) -> None:
    """The value fits; of names with values, the first value that does not is told."""
    if matches(annotation, value):
        return
    name, inner = annotation.opened()
    for key, item in value.items() if name in MAPPINGS and inner and isinstance(value, Mapping) else ():
        _require(inner[-1], item, f"{where}.{key}")
    choices = [str(choice) for choice in literals(annotation)]
    hint = near(str(value), choices) if choices else f": expected {describe(annotation)}"
    raise ConfigError(f"{where}={show(value)}{' is not an option' if choices else ''}{hint}")


def show(value: Any) -> str:
    """Return a value on one short line: text without quotes, other values in the spelling of an override."""
    return (value if isinstance(value, str) else spell(value)).encode("unicode_escape").decode()[:80]


def visible(text: str) -> str:
    """Return text on one line, with invisible characters escaped: `\\n`."""
    return "".join(
        character if character.isprintable() else character.encode("unicode_escape").decode() for character in text
    )


def spell(value: Any) -> str:
    """Return the value as an override spells it, without blanks of its own."""
    if isinstance(value, list):
        return f"[{','.join(map(spell, value))}]"
    if isinstance(value, Mapping):
        return f"{{{','.join(f'{key}:{spell(child)}' for key, child in value.items())}}}"
    if isinstance(value, str):
        is_plain = UNQUOTED.fullmatch(value) and not OTHER.fullmatch(value)
        return value if is_plain else "'" + QUOTED.sub(r"\1\1", value).replace("'", "\\'") + "'"
    return CONSTANTS.get(str(value), str(value))


def describe(annotation: Annotation) -> str:
    """Return what an annotation asks for, in words."""
    name, inner = annotation.opened()
    if name in LISTS and inner:
        many = "" if _is_repeated(inner) else f"{len(inner)} "
        return f"a list of {many}{_plural(describe(inner[0]))}"
    if name in MAPPINGS and inner:
        return f"names, each with {describe(inner[-1])}"
    if name in ("or", "Literal"):
        return " or ".join(map(describe, inner) if name == "or" else map(str, literals(annotation)))
    class_name = last_word(inner[0].node) if name == "class" else name
    return WORDS.get(name) or f"the keys of {class_name}, with a _target_"


def _plural(words: str) -> str:
    """`an integer` as `integers`, `text` as `words`."""
    return "words" if words == "text" else f"{words.split(' ', 1)[-1]}s" if words[:2] in ("a ", "an") else words


def _is_repeated(inner: list[Annotation]) -> bool:
    """Tell whether a list takes any number of the first, as in `list[int]` and `tuple[int, ...]`."""
    return len(inner) == 1 or (isinstance(inner[-1].node, ast.Constant) and inner[-1].node.value is Ellipsis)


def matches(annotation: Annotation, value: Any) -> bool:
    """Tell whether a YAML value fits an annotation; names that cannot be resolved accept anything."""
    name, inner = annotation.opened()
    if name == "or":
        return any(matches(each, value) for each in inner)
    if name == "Literal":
        return any(type(value) is type(option) and value == option for option in literals(annotation))
    if name in LISTS:
        return isinstance(value, list) and (not inner or _matches_items(inner, value))
    if name in MAPPINGS:
        return isinstance(value, Mapping) and all(matches(inner[-1], item) for item in value.values() if inner)
    if name in ("class", "Callable"):
        return isinstance(value, Mapping) and "_target_" in value
    return name not in SCALARS or _is_scalar(value, SCALARS[name])


def _matches_items(inner: list[Annotation], value: list[Any]) -> bool:
    each = inner[:1] * len(value) if _is_repeated(inner) else inner
    return len(each) == len(value) and all(map(matches, each, value))


def _is_scalar(value: Any, kinds: tuple[type, ...]) -> bool:
    """Tell whether a value is of one of these kinds, `true` being no integer and nan no number."""
    return isinstance(value, kinds) and (bool in kinds or not isinstance(value, bool)) and value == value


def literals(annotation: Annotation) -> list[Any]:
    """The options of an annotation that is (or names) a Literal."""
    name, inner = annotation.opened()
    if name == "or":
        return [option for each in inner for option in literals(each)]
    return [each.node.value for each in inner if isinstance(each.node, ast.Constant)] if name == "Literal" else []
