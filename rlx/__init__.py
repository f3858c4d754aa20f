"""rlx trains and evaluates language-model agents by reinforcement learning."""

from __future__ import annotations

import sys
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rlx.api import CallError as CallError
    from rlx.api import RunFolder as RunFolder
    from rlx.api import evaluate as evaluate
    from rlx.api import load as load
    from rlx.api import train as train

__version__ = "0.1.0"

FUNCTIONS = ("train", "evaluate", "load", "RunFolder", "CallError")
"""Names of rlx.api that are names of the package."""


class CallableModule(ModuleType):
    """A module that is called as the function of its name in rlx.api: `rlx.train` is both."""

    def __call__(self, *words: Any, **keys: Any) -> Any:
        return getattr(import_module("rlx.api"), self.__name__.rpartition(".")[2])(*words, **keys)


class Package(ModuleType):
    """The package. Python sets each imported module as its attribute, which must not hide a function."""

    def __setattr__(self, name: str, value: Any) -> None:
        if name in FUNCTIONS and isinstance(value, ModuleType):
            value.__class__ = CallableModule
        super().__setattr__(name, value)


sys.modules[__name__].__class__ = Package


def __getattr__(name: str) -> Any:
    """Import a function when it is used first, so that `import rlx` stays light."""
    if name in FUNCTIONS:
        return getattr(import_module("rlx.api"), name)
    raise AttributeError(f"module 'rlx' has no attribute {name!r}")
