"""A warm start: an ordinary run of another algorithm, kept in a cache by the digest of all that determines it. It may
have a warm start of its own, and an environment, a protocol and a sampling."""

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
from rlx.run.inputs import data_of
from rlx.run.run import Run

PARTS = ("env", "protocol", "sampling", "algo", "steps", "seed")
"""Of a stage's configuration, what its weights depend on, beside the model that it starts from."""


def warm_config(stage: Run) -> dict[str, Any]:
    """Those parts; the model without its recipe, which the others have taken what they need of; what it starts from;
    and the environment without its `judging` keys where the stage only imitates."""
    config = {part: stage.config[part] for part in PARTS}
    if stage.algo.imitates:
        judging = getattr(stage.env, "judging", ())
        config["env"] = {key: value for key, value in config["env"].items() if key not in judging}
    model = {key: value for key, value in stage.config["model"].items() if key != "recipe"}
    longer = {"extend": stage.extend} if stage.extend else {}
    return {**config, **longer, "model": model, "start": start_digest(stage), **data_of(stage.env)}


def start_digest(run: Run) -> str:
    """A name for what a run starts from: the model's weights, or all that those of its warm start depend on."""
    before = run.before()
    if before is None:
        return weights_digest(run.model)
    return digest_of({"config": warm_config(before), "rlx": __version__})


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


def warm_model(run: Run, learn: Callable[[Run], Path]) -> Model:
    """The model a run starts from; `learn` runs the stage before it, or goes on with it, and gives its last
    checkpoint."""
    before = run.before()
    if before is None:
        return run.model
    return replace(run.model, path=str(learn(replace(before, folder=cache_folder() / "warm" / start_digest(run)))))
