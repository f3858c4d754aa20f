"""Keys that a stored configuration lacks because they are newer than it.

A new key has a default under which everything is as it was without the key. So a run folder from before the key is
a run with the default.
"""

from __future__ import annotations

import importlib
import inspect
import json
from collections.abc import Mapping
from typing import Any


def with_newer_keys(old: Mapping[str, Any], new: Mapping[str, Any]) -> dict[str, Any]:
    """Copy `old`, with the keys of `new` that it lacks and that have their defaults in `new`, in calls of the same
    target. `new` is trusted: it is the configuration that was built."""
    filled = dict(old)
    defaults = defaults_of(new.get("_target_")) if old.get("_target_") == new.get("_target_") else {}
    for key, value in new.items():
        if key not in old and key in defaults and defaults[key] == value:
            filled[key] = value
        elif isinstance(value, Mapping) and isinstance(own := old.get(key), Mapping):
            filled[key] = with_newer_keys(own, value)
    return filled


def defaults_of(target: Any) -> dict[str, Any]:
    """Return the defaults of a target's parameters, as JSON has them; of those that JSON cannot hold, none."""
    module, _, name = target.rpartition(".") if isinstance(target, str) else ("", "", "")
    try:
        parameters = inspect.signature(getattr(importlib.import_module(module), name)).parameters.values()
    except (ImportError, AttributeError, ValueError, TypeError):
        return {}
    return {one.name: json.loads(text) for one in parameters if (text := as_json(one.default)) is not None}


def as_json(value: Any) -> str | None:
    """Return a value as JSON; None where it is not JSON, or is no value."""
    try:
        return None if value is inspect.Parameter.empty else json.dumps(value, allow_nan=False)
    except (TypeError, ValueError):
        return None
