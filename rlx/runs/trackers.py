"""The trackers of a run that its settings ask for, each in a thread of its own."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from rlx.runs.dashboard import WANDB, Dashboard, Tracker
from rlx.runs.event_files import EventFiles
from rlx.runs.track import Track
from rlx.runs.wandb_run import open_wandb

Code = Callable[[], Mapping[str, Any]]
"""Function that returns the state of the code, such as its commit."""


def open_dashboards(
    track: Track, folder: Path, config: Mapping[str, Any], *, notice: Callable[[str], None], code: Code, rank: int = 0
) -> tuple[Dashboard, ...]:
    """Return dashboards that are already starting; none on other ranks than 0."""
    if rank:
        return ()
    openers: dict[str, Callable[[], Tracker]] = {}
    if "disabled" not in (track.mode, os.environ.get("WANDB_MODE")):
        openers[WANDB] = lambda: open_wandb(track, folder, {**config, "code": code()})
    if track.tensorboard:
        openers["TensorBoard"] = lambda: EventFiles(folder)
    dashboards = {name: Dashboard(name=name, notice=notice, timeout=track.timeout) for name in openers}
    for name, dashboard in dashboards.items():
        dashboard.start(openers[name])
    return tuple(dashboards.values())
