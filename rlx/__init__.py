"""rlx trains and evaluates language-model agents by reinforcement learning."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rlx.api import CallError as CallError
    from rlx.api import RunFolder as RunFolder
    from rlx.api import evaluate as evaluate
    from rlx.api import load as load
    from rlx.api import train as train

__version__ = "0.1.0"

FUNCTIONS = ("train", "evaluate", "load", "RunFolder", "CallError")
"""Names of rlx.api that are names of the package; no module below the package has one of them."""


def __getattr__(name: str) -> Any:
    """Import a function when it is used first, so that `import rlx` stays light."""
    if name in FUNCTIONS:
        return getattr(import_module("rlx.api"), name)
    raise AttributeError(f"module 'rlx' has no attribute {name!r}")
