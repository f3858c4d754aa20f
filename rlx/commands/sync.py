"""`rlx sync`: upload what W&B recorded offline below some folders, by W&B's own program. Nothing is deleted."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from rlx.console import counted, one_line
from rlx.record.folder import CHECKPOINTS, LOCK, TRAJECTORIES
from rlx.record.lock import HeldError, hold

WANDB = "wandb"
OFFLINE = "offline-run-*"
"""Folders of one start of a run each, in W&B's folder; a resumed run has several."""
NOT_IN = {CHECKPOINTS, TRAJECTORIES}
"""Folders of a run that contain no runs."""
Upload = Callable[[Sequence[Path]], str]
"""Uploads these parts of a run; returns the reason where that fails, or the empty string."""


@dataclass(frozen=True)
class Synced:
    """Outcome for one run."""

    text: str
    """Line about it."""
    failed: bool = False


def sync(folders: Sequence[Path], upload: Upload | None = None) -> Iterator[Synced]:
    """Upload each run below the folders that has something to upload, and yield its outcome."""
    for folder in dict.fromkeys(run for place in folders for run in recorded_runs(place)):
        yield sync_run(folder, upload or upload_by_wandb)


def recorded_runs(place: Path) -> Iterator[Path]:
    """Yield the folders of runs, below a folder or at it, that W&B recorded offline."""
    for folder, below, _ in os.walk(place.absolute()):
        if WANDB in below and any(parts_of(Path(folder))):
            yield Path(folder)
        below[:] = sorted(name for name in below if name not in NOT_IN | {WANDB})


def parts_of(folder: Path) -> list[Path]:
    """Return the recorded parts of a run, in the order of their times."""
    return sorted(part for part in (folder / WANDB).glob(OFFLINE) if any(part.glob("run-*.wandb")))


def is_uploaded(part: Path) -> bool:
    """Return True if W&B has marked every record of a part as uploaded."""
    return all(record.with_suffix(".wandb.synced").exists() for record in part.glob("run-*.wandb"))


def sync_run(folder: Path, upload: Upload) -> Synced:
    """Upload the parts of a run that are not uploaded yet. The run's lock is held: W&B marks a part as uploaded, and a
    run that goes on would lose what it adds afterwards."""
    name = one_line(str(folder))
    try:
        with hold(folder / LOCK):
            rest = [part for part in parts_of(folder) if not is_uploaded(part)]
            if not rest:
                return Synced(f"{name}: uploaded before")
            reason = upload(rest)
            left = [part for part in rest if not is_uploaded(part)]
    except HeldError as error:
        return Synced(f"{name}: running ({one_line(str(error))}), to be uploaded when it has ended")
    except OSError as error:
        return Synced(f"{name}: not uploaded: {one_line(str(error))}", failed=True)
    if reason or left:
        return Synced(f"{name}: not uploaded: {one_line(reason or 'W&B gave no reason')}", failed=True)
    return Synced(f"{name}: uploaded, {counted(len(rest), 'part')}")


def upload_by_wandb(parts: Sequence[Path]) -> str:
    """Run `wandb sync`. The variable that makes runs offline is left out, as it would make the upload offline too."""
    command = [sys.executable, "-m", "wandb", "sync", *map(str, parts)]
    done = subprocess.run(
        command, env=online(os.environ), stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace"
    )
    return "" if done.returncode == 0 else last_line(done.stderr) or last_line(done.stdout) or "no reason given"


def online(environ: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in environ.items() if name != "WANDB_MODE"}


def last_line(text: str) -> str:
    return next((line for line in reversed(text.splitlines()) if line.strip()), "")
