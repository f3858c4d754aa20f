"""Folders that are runs."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from rlx.base.regular import open_regular
from rlx.runs.attempts import JOB
from rlx.runs.folder import (
    CHECKPOINTS,
    CONFIG,
    EVALUATIONS,
    LOGS,
    MARK,
    METRICS,
    RANKS,
    SUMMARY,
    TENSORBOARD,
    TRAJECTORIES,
    WANDB,
)
from rlx.runs.store import split_numbers

PARTS = frozenset({CHECKPOINTS, TRAJECTORIES, RANKS, LOGS, WANDB, TENSORBOARD})
"""Folders of a run that hold no other run. `evaluations` holds those of its checkpoints."""
FIRST = MARK.partition(",")[0].encode()
"""Begin of the first line of a run's config.yaml, whatever version of rlx wrote it."""


def runs_below(folder: Path, *, nested: bool = True) -> Iterator[Path]:
    """Yield the run that a folder is, and those below it, in the order of their names, 2 before 10. A run's own folders
    are looked through for its evaluations and other runs unless not `nested`. No link is followed."""
    below, names = list_folder(folder)
    if is_run(folder, names):
        yield folder
        if not nested:
            return
    for name in sorted(below, key=split_numbers):
        if name not in PARTS and not name.startswith(".") and (nested or name != EVALUATIONS):
            yield from runs_below(folder / name, nested=nested)


def list_folder(folder: Path) -> tuple[list[str], list[str]]:
    """Return the names of the folders in a folder, and all names; none if it cannot be read."""
    try:
        entries = list(os.scandir(folder))
    except (OSError, ValueError):
        return [], []
    return [entry.name for entry in entries if entry.is_dir(follow_symlinks=False)], [entry.name for entry in entries]


def is_run(folder: Path, names: Sequence[str] | None = None) -> bool:
    """Return True for the folder of a run, from its submission or its first second to any end: it has a SLURM job,
    metrics, a summary, or a configuration that rlx wrote. `names` are those in the folder, if they are at hand."""
    present = list_folder(folder)[1] if names is None else names
    has_results = METRICS in present or SUMMARY in present
    return has_results or (CONFIG in present and is_saved_config(folder)) or os.path.lexists(folder / LOGS / JOB)


def is_saved_config(folder: Path) -> bool:
    """Return True if config.yaml is a run's, and not that of another program."""
    try:
        with open_regular(folder / CONFIG) as file:
            return file.read(len(FIRST)) == FIRST
    except (OSError, ValueError):
        return False


def short_names(folders: Sequence[Path]) -> list[str]:
    """Return the fewest last parts of each path that distinguish the runs; a number has the name before it."""
    paths = [Path(os.path.abspath(folder)).parts[1:] for folder in folders]
    fewest = 2 if any(parts[-1].isdecimal() for parts in paths) else 1
    most = max(map(len, paths))
    enough = (num for num in range(fewest, most) if len({parts[-num:] for parts in paths}) == len(paths))
    num = next(enough, most)
    return ["/".join(parts[-num:]) for parts in paths]
