"""Inputs of a run from outside, looked at before anything is made: a model's folder, a data set, the cache."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from rlx.base.fetch import snapshot
from rlx.environment import Environment
from rlx.environment.world import data_version_of, parts_of
from rlx.hardware.pulse import nothing
from rlx.model.load import local_folder
from rlx.model.packaged import is_packaged
from rlx.run.run import Run
from rlx.runs.provenance import Provenance, provenance_of


def provenance_in(config: Mapping[str, Any], env: Environment) -> Provenance:
    """Build the record of what results of a configuration on an environment depend on beside it."""
    return provenance_of(config, data_version_of(env))


def environments(run: Run) -> Iterator[Environment]:
    """Yield every part of the environments of the run and its warm starts."""
    for stage in run.stages():
        yield from parts_of(stage.env).values()


def fetch_inputs(run: Run, check: Callable[[], None] = nothing) -> None:
    """Fetch what is on a hub; `check` may end it at any time. An environment names its data set (`hub_data`)."""
    if not is_packaged(run.model.path) and local_folder(run.model) is None:
        snapshot(run.model.path, "model", check)
    for name in {env.hub_data: None for env in environments(run)}:
        if name:
            snapshot(name, "dataset", check)


def list_inputs(run: Run) -> list[str]:
    """Return a line for each thing that the run reads, with the folder where it is."""
    folder = local_folder(run.model)
    lines = [f"model    {run.model.path}: {folder or snapshot(run.model.path, 'model')}"]
    names = {env.hub_data: None for env in environments(run)}
    return lines + [f"data     {name}: {snapshot(name, 'dataset')}" for name in names if name]
