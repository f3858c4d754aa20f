"""Check that a run's settings suit the size of its model: rates of a small model wreck a large one without a word."""

from __future__ import annotations

import math
from typing import Any

from rlx.config.folders import shipped_options
from rlx.model.load import Model, local_folder
from rlx.model.packaged import is_packaged
from rlx.model.shape import find_shape, read_shape
from rlx.preflight.fit import FitError
from rlx.run.run import Run

FAR = 4
"""Times the recipe's own size, from which on a model is too large for it."""
SMALLEST = 50_000_000
"""Parameters that a model which is not here yet is taken to have at least."""


def check_settings(run: Run) -> None:
    """Refuse a recipe for another size of model, and an objective that the run will not have."""
    check_recipe(run)
    if run.objective is not None:
        from rlx.preflight.objective import check_objective  # numpy comes with it

        check_objective(run)


def check_recipe(run: Run) -> None:
    """Refuse to train a model that is far larger than the one its recipe is for."""
    model, recipe = run.model, run.model.recipe
    if recipe is None:
        return
    num = size_of(model)
    if (num or (SMALLEST if is_elsewhere(model) else 0)) > FAR * recipe.num_parameters:
        what = f"has {num:,} parameters" if num else "is not here yet, so its size is unknown"
        raise FitError(
            f"model.path={model.path} {what}; learning rates, lengths and sizes of this run suit "
            f"{recipe.num_parameters:,} parameters: choose {remedy(model.path, num)}"
        )


def size_of(model: Model) -> int | None:
    """Its parameters: as its path is known to have, or as its folder or its shape say; None where nothing says it."""
    known = [read_shape(option["shape"]) for option in shipped_options("model").values() if is_of(option, model.path)]
    shape = known[0] if known else find_shape({"path": model.path, "shape": model.shape})
    return None if shape is None else shape.num_parameters


def is_of(option: dict[str, Any], path: str) -> bool:
    return bool(option["path"] == path and option["shape"])


def is_elsewhere(model: Model) -> bool:
    """On a hub, or packed in a package."""
    return is_packaged(model.path) or local_folder(model) is None


def remedy(path: str, num: int | None) -> str:
    """The words that choose what suits a model: its own option, else the recipe for its size."""
    named = [f"model={name}" for name, option in shipped_options("model").items() if is_of(option, path)]
    if named:
        return named[0]
    sizes = {name: option["num_parameters"] for name, option in shipped_options("model/recipe").items()}
    if num is not None:
        return f"model/recipe={min(sizes, key=lambda name: abs(math.log(sizes[name] / num)))}"
    large = sorted((name for name in sizes if sizes[name] >= SMALLEST), key=lambda name: sizes[name])
    return f"model/recipe= one of {', '.join(large)}"
