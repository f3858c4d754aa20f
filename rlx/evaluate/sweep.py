"""The runs of a sweep, and the configuration keys in which runs differ."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rlx.limits import MistakeError
from rlx.record.folder import BOUND_KEYS, CONFIG, FREE_KEYS, SUMMARY, flatten, is_free, read_config
from rlx.runs.summary import Summary, read_summary


class SweepError(MistakeError):
    """Error of a folder that is no sweep; the message is one line that names it."""


@dataclass(frozen=True, kw_only=True)
class SweepRun:
    """One run of a sweep."""

    name: str
    folder: Path
    config: Mapping[str, Any]
    """Flat configuration: `algo.optimizer.lr` to its value."""
    summary: Summary | None
    """Summary of the run; None before the run has ended."""


def read_sweep(folder: Path) -> list[SweepRun]:
    """Read every run directly below `folder`, 2 before 10; raise SweepError if there is none."""
    found = (file.parent for file in folder.glob(f"[!.]*/{CONFIG}"))  # .hydra is a run's own
    folders = sorted(found, key=lambda run: (len(run.name), run.name))
    if not folders:
        raise SweepError(f"{folder} holds no runs: give the folder of an `rlx train -m`")
    return [read_run(run) for run in folders]


def read_run(folder: Path) -> SweepRun:
    """Read a run folder's configuration and summary. An error names the bad file in one line."""
    ending = folder / SUMMARY
    summary = read_summary(ending) if ending.exists() else None
    return SweepRun(name=folder.name, folder=folder, config=flatten(read_config(folder)), summary=summary)


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
