"""The runs of a sweep, and the configuration keys in which runs differ."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rlx.base.limits import MistakeError
from rlx.runs.find import is_run, runs_below
from rlx.runs.folder import BOUND_KEYS, FREE_KEYS, is_free
from rlx.runs.run import StoredRun, require_run


class SweepError(MistakeError):
    """Error of a folder that is no sweep; the message names the folder in one line."""


def read_sweep(folder: Path) -> list[StoredRun]:
    """Read every run below `folder`, 2 before 10; raise SweepError without one, or if `folder` is a run itself. An
    unreadable file is an error of one line."""
    runs = [] if is_run(folder) else list(runs_below(folder, nested=False))
    if not runs:
        raise SweepError(f"{folder} holds no runs: give the folder of an `rlx train -m`")
    return [require_run(run, run.relative_to(folder).as_posix()) for run in runs]


def differing_keys(configs: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the keys whose values differ between the runs."""
    keys = {key: None for config in configs for key in config}
    return [key for key in keys if len({config_cell(config.get(key)) for config in configs}) > 1]


UNSEEN_KEYS = tuple(key for key in FREE_KEYS if key != "steps")
"""Parts of a configuration in which averaged runs may differ."""


def is_alike(key: str) -> bool:
    """Return True if runs that differ in this key may be averaged: seeds, and keys without effect."""
    is_seed = key == "seed" or (key.startswith("warm_start.") and key.endswith(".seed"))
    return is_seed or (key not in BOUND_KEYS and is_free(key, UNSEEN_KEYS))


def short_keys(keys: Sequence[str]) -> list[str]:
    """Shorten `algo.lambda_call` to `lambda_call`, unless another key has the same end."""
    last = [key.rsplit(".", 1)[-1] for key in keys]
    return [end if last.count(end) == 1 else key for key, end in zip(keys, last, strict=True)]


def config_cell(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, default=str)
