"""A warm start: an ordinary run of another algorithm, kept in a cache by the digest of all that determines it."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from rlx import __version__
from rlx.model.load import Model, local_folder
from rlx.model.packaged import cache_folder
from rlx.record.folder import digest_of
from rlx.run.run import Run, WarmStart

PARTS = ("env", "protocol", "model", "sampling", "warm_start")
"""Of the configuration, what a warm start depends on; the run's own algorithm, seed and length are not among them."""


def warm_config(run: Run) -> dict[str, Any]:
    """Those parts, less the model's recipe, which the others have taken what they need of, and the environment's
    `judging` keys where the warm start only imitates."""
    config = {part: run.config[part] for part in PARTS}
    config["model"] = {key: value for key, value in config["model"].items() if key != "recipe"}
    if run.warm_start.algo is not None and run.warm_start.algo.imitates:
        judging = getattr(run.env, "judging", ())
        config["env"] = {key: value for key, value in config["env"].items() if key not in judging}
    return config


def warm_digest(run: Run) -> str:
    """A name for everything the warm start's weights depend on, the starting weights included."""
    return digest_of({"config": warm_config(run), "weights": weights_digest(run.model), "rlx": __version__})


def weights_digest(model: Model) -> str:
    """Of a local model's weights; a hub's name stands for itself."""
    folder = local_folder(model)
    if folder is None:
        return str(model.path)
    digest = hashlib.sha256()
    for file in sorted(folder.glob("*.safetensors")):
        with file.open("rb") as weights:
            digest.update(hashlib.file_digest(weights, "sha256").digest())
    return digest.hexdigest()


def stage_of(run: Run) -> Run:
    """The warm start as a run of its own, in the cache."""
    warm = run.warm_start
    assert warm.algo is not None
    return replace(
        run,
        algo=warm.algo,
        hardware=replace(run.hardware, staleness=0),
        evaluate=replace(run.evaluate, every=0),
        steps=warm.steps,
        seed=warm.seed,
        warm_start=WarmStart(),
        folder=cache_folder() / "warm" / warm_digest(run),
        config=warm_config(run),
    )


def warm_model(run: Run, learn: Callable[[Run], Path]) -> Model:
    """The model a run starts from; `learn` runs the stage, or goes on with it, and gives its last checkpoint."""
    if run.warm_start.algo is None or run.warm_start.steps == 0:
        return run.model
    return replace(run.model, path=str(learn(stage_of(run))))
