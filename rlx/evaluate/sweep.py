"""A table across the runs of a sweep: the configuration keys in which they differ, and what came of each."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rlx.console import counted
from rlx.evaluate.summary import Summary, plain, read_summary
from rlx.evaluate.tables import Table, estimate_cell, pass_columns, use_columns
from rlx.limits import MistakeError
from rlx.record.folder import CONFIG, SUMMARY, flatten, read_config


class SweepError(MistakeError):
    """A folder that is no sweep; the message is one line that names it."""


@dataclass(frozen=True, kw_only=True)
class SweepRun:
    """One run of a sweep."""

    name: str
    config: Mapping[str, Any]
    """Flat: `algo.optimizer.lr` to its value."""
    summary: Summary | None
    """None while the run has not ended."""


def read_sweep(folder: Path) -> list[SweepRun]:
    """Every run right below `folder`, 2 before 10; ValueError with one line where there is none."""
    found = (file.parent for file in folder.glob(f"[!.]*/{CONFIG}"))  # .hydra is a run's own
    folders = sorted(found, key=lambda run: (len(run.name), run.name))
    if not folders:
        raise SweepError(f"{folder} holds no runs: give the folder of an `rlx train -m`")
    return [read_run(run) for run in folders]


def read_run(folder: Path) -> SweepRun:
    """A run folder's configuration and summary; an error of one line names the file that is not one."""
    ending = folder / SUMMARY
    summary = read_summary(ending) if ending.exists() else None
    return SweepRun(name=folder.name, config=flatten(read_config(folder)), summary=summary)


def sweep_table(runs: Sequence[SweepRun]) -> Table:
    """A row per run: its name, the keys that differ, how it ended if not all finished, its figures."""
    keys = differing_keys([run.config for run in runs])
    columns = (
        *pass_columns(name for run in runs for name in figures(run)),
        *use_columns(map(figures, runs)),
    )
    known = [column for column in columns if any(f"eval/{column.stat}" in figures(run) for run in runs)]
    finished = all(status(run) == "finished" for run in runs)
    rows = [
        (
            run.name,
            *(config_cell(run.config.get(key)) for key in keys),
            *(() if finished else (status(run),)),
            *(estimate_cell(figures(run).get(f"eval/{column.stat}"), column) for column in known),
        )
        for run in runs
    ]
    header = ("run", *short_keys(keys), *(() if finished else ("status",)), *(column.title for column in known))
    return Table(title=counted(len(runs), "run"), header=header, rows=tuple(rows))


def sweep_values(runs: Sequence[SweepRun]) -> list[dict[str, Any]]:
    """The runs as JSON: the keys that differ, how each ended, its figures by their whole names."""
    keys = differing_keys([run.config for run in runs])
    return [
        {
            "run": run.name,
            "config": {key: run.config.get(key) for key in keys},
            "status": status(run),
            "metrics": plain(figures(run)),
        }
        for run in runs
    ]


def figures(run: SweepRun) -> Mapping[str, Any]:
    return run.summary.metrics if run.summary else {}


def status(run: SweepRun) -> str:
    return run.summary.status if run.summary else "unfinished"


def differing_keys(configs: Sequence[Mapping[str, Any]]) -> list[str]:
    """Keys whose values are not the same in all runs."""
    keys = {key: None for config in configs for key in config}
    return [key for key in keys if len({config_cell(config.get(key)) for config in configs}) > 1]


def short_keys(keys: Sequence[str]) -> list[str]:
    """`algo.lambda_call` as `lambda_call`, where no other key ends the same."""
    last = [key.rsplit(".", 1)[-1] for key in keys]
    return [end if last.count(end) == 1 else key for key, end in zip(keys, last, strict=True)]


def config_cell(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, default=str)
