"""Turn a checked tree into values by calling what it names."""

from __future__ import annotations

import functools
import importlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

from rlx.config.check import SPECIAL, ConfigError, Tree
from rlx.config.made import check_made
from rlx.config.signature import signature
from rlx.run.run import Run

ROOT_KEYS = tuple(field.name for field in fields(Run) if field.name not in ("folder", "config", "words"))
"""What a configuration holds at its root: the parts of a Run."""


def build_run(tree: Tree, folder: Path, words: Sequence[str] = ()) -> Run:
    """A Run from a tree that `check_tree` has passed."""
    parts = {key: build_part(tree, key) for key in ROOT_KEYS if key in tree}
    try:
        return Run(**parts, folder=folder, config=tree, words=tuple(words))
    except ValueError as error:
        raise ConfigError(str(error)) from error


def build_part(tree: Tree, key: str) -> Any:
    """What one of a configuration's root keys stands for: an environment, a model, the seed."""
    value = build_value(tree[key], key)
    if is_call(tree[key]):
        check_made(value, tree[key]["_target_"], signature("rlx.run.run.Run").parameters[key], key)
    return value


def is_call(value: Any) -> bool:
    return isinstance(value, Mapping) and "_target_" in value


def build_value(value: Any, path: str) -> Any:
    """Call every `_target_`, inside out; lists become tuples."""
    if isinstance(value, Mapping):
        arguments = {key: build_value(child, f"{path}.{key}") for key, child in value.items() if key not in SPECIAL}
        if not is_call(value):
            return arguments
        check_arguments(value, arguments, path)
        return call_target(value, arguments, path)
    if isinstance(value, list):
        return tuple(build_value(child, f"{path}[{index}]") for index, child in enumerate(value))
    return value


def check_arguments(call: Tree, arguments: Mapping[str, Any], path: str) -> None:
    """Each argument that a call made is what the signature names."""
    parameters = signature(call["_target_"]).parameters
    for key, child in call.items():
        if is_call(child) and key in parameters:
            check_made(arguments[key], child["_target_"], parameters[key], f"{path}.{key}")


def call_target(call: Tree, arguments: Mapping[str, Any], path: str) -> Any:
    """Call one target; what it refuses is told with the place of it in the configuration."""
    module, _, name = call["_target_"].rpartition(".")
    try:
        target = getattr(importlib.import_module(module), name)
        return functools.partial(target, **arguments) if call.get("_partial_") else target(**arguments)
    except (ImportError, ValueError, TypeError) as error:
        first = (str(error) or type(error).__name__).splitlines()[0]
        raise ConfigError(placed(first, path)) from error
    except Exception as error:
        first = (str(error) or "no reason given").splitlines()[0]
        raise ConfigError(f"{path}: {call['_target_']} fails with {type(error).__name__}: {first}") from error


def placed(message: str, path: str) -> str:
    """A refusal with the place of it: `clip=-1: expected …` of algo is `algo.clip=-1: expected …`."""
    if message.startswith(f"{path}."):
        return message
    return f"{path}.{message}" if re.match(r"[\w.\[\]]+=", message) else f"{path}: {message}"
