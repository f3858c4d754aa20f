"""Check that a run's settings suit the size of its model: rates of a small model wreck a large one without a word."""

from __future__ import annotations

import math
from typing import Any

from rlx.hardware.sizing.fit import FitError
from rlx.model.shape import read_shape
from rlx.plan.prospect import Prospect
from rlx.settings.folders import shipped_options

FAR = 4
"""Times the recipe's own size, from which on a model is too large for it."""
SMALLEST = 50_000_000
"""Parameters that a model which is not here yet is taken to have at least."""


def check_recipe(prospect: Prospect) -> None:
    """Refuse to train a model that is far larger than the one its recipe is for."""
    model, recipe = prospect.run.model, prospect.run.model.recipe
    if recipe is None:
        return
    num = num_in_option(model.path) or prospect.num_stored
    if (num or (SMALLEST if prospect.is_elsewhere else 0)) > FAR * recipe.num_parameters:
        size_text = f"has {num:,} parameters" if num else "is not here yet, so its size is unknown"
        raise FitError(
            f"model.path={model.path} {size_text}; learning rates, lengths and sizes of this run suit "
            f"{recipe.num_parameters:,} parameters: choose {remedy(model.path, num)}"
        )


def num_in_option(path: str) -> int | None:
    """Return the parameters of a model that a shipped option describes; None of another."""
    options = (option for option in shipped_options("model").values() if is_of(option, path))
    return next((read_shape(option["shape"]).num_parameters for option in options), None)


def is_of(option: dict[str, Any], path: str) -> bool:
    return bool(option["path"] == path and option["shape"])


def remedy(path: str, num: int | None) -> str:
    """Return the words that choose what suits a model: its own option, else the recipe for its size."""
    named = [f"model={name}" for name, option in shipped_options("model").items() if is_of(option, path)]
    if named:
        return named[0]
    sizes = {name: option["num_parameters"] for name, option in shipped_options("model/recipe").items()}
    if num is not None:
        return f"model/recipe={min(sizes, key=lambda name: abs(math.log(sizes[name] / num)))}"
    large = sorted((name for name in sizes if sizes[name] >= SMALLEST), key=lambda name: sizes[name])
    return f"model/recipe= one of {', '.join(large)}"
