"""Turn a checked tree into values by calling what it names."""

from __future__ import annotations

import functools
import importlib
import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

from rlx.run.demand import settle
from rlx.run.run import Run
from rlx.settings.check import SPECIAL, ConfigError, Tree, is_late
from rlx.settings.made import check_made, check_promise
from rlx.settings.signature import Parameter, signature

ROOT_KEYS = tuple(field.name for field in fields(Run) if field.name not in ("folder", "config", "words"))
"""Keys of a configuration's root: the parts of a Run."""


def build_run(tree: Tree, folder: Path, words: Sequence[str] = ()) -> Run:
    """A Run from a tree that `check_tree` has passed."""
    parts = {key: build_part(tree, key) for key in sorted(ROOT_KEYS, key=is_late) if key in tree}
    try:
        return settle(Run(**parts, folder=folder, config=tree, words=tuple(words)))
    except ValueError as error:
        raise ConfigError(str(error)) from error


def build_part(tree: Tree, key: str) -> Any:
    """Build the value of a root key: an environment, a model, the seed."""
    return build_value(tree[key], key, signature("rlx.run.run.Run").parameters[key])


def is_call(value: Any) -> bool:
    return isinstance(value, Mapping) and "_target_" in value


def build_value(value: Any, path: str, parameter: Parameter | None = None) -> Any:
    """Call every `_target_`, inside out, each for what its parameter takes; lists become tuples."""
    if is_call(value):
        return build_call(value, path, parameter)
    if isinstance(value, Mapping):
        return {key: build_value(child, f"{path}.{key}") for key, child in value.items()}
    if isinstance(value, list):
        return tuple(build_value(child, f"{path}[{index}]") for index, child in enumerate(value))
    return value


def build_call(call: Tree, path: str, parameter: Parameter | None) -> Any:
    """Call one target. Check the declared type before the call, and the result after the call."""
    target = find_target(call["_target_"], path)
    if parameter is not None and not call.get("_partial_"):
        check_promise(target, call["_target_"], parameter, path)
    parameters = signature(call["_target_"]).parameters
    arguments = {
        key: build_value(child, f"{path}.{key}", parameters.get(key))
        for key, child in call.items()
        if key not in SPECIAL
    }
    value = call_target(target, call, arguments, path)
    if parameter is not None:
        check_made(value, call["_target_"], parameter, path)
    return value


def find_target(name: str, path: str) -> Any:
    """Import a target."""
    module, _, last = name.rpartition(".")
    if module.partition(".")[0] in sys.stdlib_module_names:
        raise ConfigError(f"{path}._target_={name} is Python's own: expected a class or a function of rlx or yours")
    try:
        return getattr(importlib.import_module(module), last)
    except (ImportError, ValueError, AttributeError) as error:
        raise ConfigError(add_place(first_line(error), path)) from error
    except Exception as error:
        raise ConfigError(f"{path}: {name} fails with {type(error).__name__}: {first_line(error)}") from error


def call_target(target: Any, call: Tree, arguments: Mapping[str, Any], path: str) -> Any:
    """Call one target; tell what it refuses with the place of it in the configuration."""
    try:
        return functools.partial(target, **arguments) if call.get("_partial_") else target(**arguments)
    except (ImportError, ValueError, TypeError) as error:
        raise ConfigError(add_place(first_line(error), path)) from error
    except Exception as error:
        raise ConfigError(
            f"{path}: {call['_target_']} fails with {type(error).__name__}: {first_line(error)}"
        ) from error


def first_line(error: Exception) -> str:
    return (str(error) or type(error).__name__).splitlines()[0]


def add_place(message: str, path: str) -> str:
    """A refusal with the place of it: `clip=-1: expected …` of algo is `algo.clip=-1: expected …`."""
    if message.startswith(f"{path}."):
        return message
    return f"{path}.{message}" if re.match(r"[\w.\[\]]+=", message) else f"{path}: {message}"
