"""The games as their options in conf/env/game make them."""

from __future__ import annotations

from functools import cache
from importlib import import_module
from itertools import islice
from typing import Any

from rlx.settings.folders import list_options, read_option, shipped_folder
from rlx.types import Task

GAMES = [name for name in list_options("env", [shipped_folder("conf")]) if name.startswith("game/")]
NUM = 4
"""Tasks of each split that are looked at."""


@cache
def make(name: str) -> Any:
    keys = read_option("env", name)
    module, _, kind = keys.pop("_target_").rpartition(".")
    return getattr(import_module(module), kind)(**keys)


@cache
def some(name: str, split: str) -> tuple[Task, ...]:
    return tuple(islice(make(name).tasks(split, 0), NUM))
