"""A warm start: an ordinary run of another algorithm, kept in a cache by the digest of all that determines it. It may
have a warm start of its own, and an environment, a protocol and a sampling."""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from rlx.base.fetch import WANTED, revision
from rlx.base.regular import inside
from rlx.learner.checkpoint import MANIFEST
from rlx.learner.state import PROGRESS
from rlx.model.load import Model, local_folder
from rlx.run.execution import Execution
from rlx.run.inputs import provenance_in
from rlx.run.policies import keep_chosen
from rlx.run.progress import RUN_FILE
from rlx.run.run import Run
from rlx.runs.cache import WARM, cache_folder, refusal
from rlx.runs.folder import LOCK, digest_of
from rlx.runs.provenance import file_digest

STAGE_KEYS = ("env", "protocol", "sampling", "algo", "steps", "seed")
"""Keys of a stage's configuration that its weights depend on, beside its start model."""
LEARNING = (MANIFEST, PROGRESS, RUN_FILE)
"""Files of a checkpoint that are no part of its model."""


def warm_config(stage: Run) -> dict[str, Any]:
    """Return the settings that determine a stage: STAGE_KEYS, the model, and what it starts from. The model's recipe is
    left out, as the other keys have its values; so are the environment's `reward_only_keys` where the stage only
    imitates. The policies of other agents are always included: the stage's result and length depend on them."""
    config = stage_config(stage)
    model = {key: value for key, value in stage.config["model"].items() if key != "recipe"}
    longer = {"extend": stage.extend} if stage.extend else {}
    record = {"model": model, "start": start_digest(stage), "provenance": provenance_in(config, stage.env).digest}
    return {**config, **longer, **record}


def stage_config(stage: Run) -> dict[str, Any]:
    """Return the keys of a stage's configuration that its weights depend on, beside its start model."""
    config = {part: stage.config[part] for part in STAGE_KEYS} | keep_chosen(stage.config)
    if stage.algo.imitates:
        judging = stage.env.reward_only_keys
        config["env"] = {key: value for key, value in config["env"].items() if key not in judging}
    return config


def start_digest(run: Run) -> str:
    """Return a digest of a run's start: of its model, or of all settings that determine its warm start."""
    before = run.before()
    return model_digest(run.model) if before is None else digest_of({"config": warm_config(before)})


def model_digest(model: Model) -> str:
    """Return a digest of a local model's files: weights, settings, tokenizer and chat template; of a hub's model, its
    name and the commit that is here."""
    folder = local_folder(model)
    if folder is None:
        return f"{model.path}@{revision(model.path, 'model')}"
    digest = hashlib.sha256()
    files = {file for pattern in WANTED["model"] or () for file in folder.rglob(pattern) if file.is_file()}
    for file in sorted(files):
        if file.name not in LEARNING:
            digest.update(f"{file.relative_to(folder)}\0{file_digest(file)}\0".encode())
    return digest.hexdigest()


def warm_model(run: Run, learn: Callable[[Run], Path]) -> Model:
    """The model a run starts from; `learn` runs the stage before it, or goes on with it, and gives its last
    checkpoint."""
    before = run.before()
    if before is None:
        return run.model
    return replace(run.model, path=str(learn(replace(before, folder=cache_folder() / WARM / start_digest(run)))))


def place_stage(execution: Execution, stage: Run) -> Run:
    """Return the stage in the folder that it is kept in: the cache's; where the cache cannot be written, one inside the
    run's own folder, which begins as a copy of what the cache holds."""

    def look() -> str:
        if not refusal():
            return str(stage.folder)
        folder = inside(execution.run.folder, WARM, stage.folder.name)
        if stage.folder.is_dir() and not folder.exists():
            aside = folder.with_name(f".{folder.name}.part")
            shutil.rmtree(aside, ignore_errors=True)
            shutil.copytree(stage.folder, aside, ignore=shutil.ignore_patterns(LOCK))
            aside.rename(folder)
        return str(folder)

    return replace(stage, folder=Path(execution.process.ranks.first(look)))
