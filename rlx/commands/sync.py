"""`rlx sync`: upload what W&B recorded offline below some folders, by W&B's own program. Nothing is deleted."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from rlx.console import one_line
from rlx.record.folder import CHECKPOINTS, LOCK, METRICS, TRAJECTORIES, WANDB
from rlx.record.lock import HeldError, hold
from rlx.record.track import last_metrics
from rlx.record.wandb_run import closed_mark, record_again
from rlx.regular import inside, regular_files, require_regular

OFFLINE = "offline-run-"
ONLINE = "run-"
"""First letters of the folder of a start of a run, in W&B's folder. A resumed run has several such folders."""
API_KEY = "WANDB_API_KEY"
ERROR = re.compile(r"\b(?:ERROR|Error:) (?P<text>.*)")
SECONDS = 1800
"""Longest upload of a run, if the server goes away: W&B's program tries again and again."""
NOT_IN = {CHECKPOINTS, TRAJECTORIES}
"""Folders of a run that contain no runs."""
Upload = Callable[[Path], str]
"""Uploads a part of a run; returns the reason where that fails, or the empty string."""


@dataclass(frozen=True)
class Synced:
    """Outcome for one run."""

    text: str
    """Line about it."""
    failed: bool = False


def sync(folders: Sequence[Path], upload: Upload | None = None) -> Iterator[Synced]:
    """Upload each run below the folders that has something to upload, and yield its outcome."""
    upload = upload or WandbProgram()
    runs = list(dict.fromkeys(run for place in folders for run in recorded_runs(place)))
    for folder in runs:
        yield sync_run(folder, upload)
    if not runs:
        where = one_line(", ".join(map(str, folders)))
        yield Synced(f"{where}: W&B recorded no run offline here; name a folder of runs", failed=True)


def recorded_runs(place: Path) -> Iterator[Path]:
    """Yield the folders of runs, below a folder or at it, that W&B recorded offline."""
    for folder, below, _ in os.walk(place.absolute()):
        if WANDB in below and any(parts_of(Path(folder), OFFLINE)):
            yield Path(folder)
        below[:] = sorted(name for name in below if name not in NOT_IN | {WANDB})


def parts_of(folder: Path, *kinds: str) -> list[Path]:
    """Return the parts of a run that W&B recorded, one for each start, in the order of their times."""
    found = [(part.name.removeprefix(kind), part) for kind in kinds for part in (folder / WANDB).glob(f"{kind}*")]
    return [part for _, part in sorted(found) if any(part.glob("run-*.wandb"))]


def is_uploaded(part: Path) -> bool:
    """Return True if W&B has marked every record of a part as uploaded."""
    return all(record.with_suffix(".wandb.synced").exists() for record in part.glob("run-*.wandb"))


def sync_run(folder: Path, upload: Upload) -> Synced:
    """Upload the last part of a run, which has all steps and replaces earlier parts, if it is not uploaded yet. If the
    run was killed, the part is recorded again.

    The run's lock is held: W&B marks a part as uploaded, and a run that goes on would lose what it adds afterwards.
    """
    name = one_line(str(folder))
    try:
        inside(folder, WANDB)
        with hold(folder / LOCK):
            part = parts_of(folder, OFFLINE, ONLINE)[-1]
            if part.name.startswith(ONLINE) or is_uploaded(part):
                return Synced(f"{name}: uploaded before")
            if not closed_mark(folder).exists() and last_metrics(folder / METRICS, 1):
                record_again(folder)
                part = parts_of(folder, OFFLINE)[-1]
            refuse_links(folder, part)
            reason = upload(part)
            is_done = is_uploaded(part)
    except HeldError as error:
        return Synced(f"{name}: running ({one_line(str(error))}), to be uploaded when it has ended")
    except Exception as error:  # the folder may be a stranger's, and W&B raises what it likes
        return Synced(f"{name}: not uploaded: {one_line(str(error))}", failed=True)
    if not is_done:
        return Synced(f"{name}: not uploaded: {one_line(reason or 'W&B gave no reason')}", failed=True)
    return Synced(f"{name}: uploaded")


def refuse_links(folder: Path, part: Path) -> None:
    """Refuse a part whose record or files are links, or no regular files: W&B would upload those."""
    files = inside(folder, WANDB, part.name, "files")
    for path in (*part.glob("run-*.wandb"), *regular_files(files)):
        require_regular(path)


@dataclass
class WandbProgram:
    """Uploads by W&B's own program, which checks the key and the server once, before the first part."""

    refusal: str | None = None
    """Reason for which the server takes nothing; None before the check."""

    def __call__(self, part: Path) -> str:
        if self.refusal is None:
            self.refusal = run_wandb("login", "--verify")
        return self.refusal or run_wandb("sync", str(part.absolute()))


def run_wandb(*words: str) -> str:
    """Run W&B's program and return the error that it prints, without the key."""
    quiet: dict[str, Any] = {"stdin": subprocess.DEVNULL, "capture_output": True, "text": True, "errors": "replace"}
    command = [sys.executable, "-m", "wandb", *words]
    try:
        # Started in a stranger's folder, Python would import its wandb.py, and W&B would send the key to the server of
        # its wandb/settings; W&B reads those of WANDB_DIR too.
        with TemporaryDirectory() as empty:
            environ = online(os.environ) | {"WANDB_DIR": empty}
            done = subprocess.run(command, env=environ, cwd=empty, check=False, timeout=SECONDS, **quiet)
    except subprocess.TimeoutExpired:
        return f"no answer within {SECONDS} s"
    reason = error_in(done.stderr) or (last_line(done.stderr or done.stdout) if done.returncode else "")
    return without_key(reason, os.environ)


def error_in(text: str) -> str:
    """Return the last error in the output of W&B's program; empty without one."""
    errors = [match["text"] for line in text.splitlines() if (match := ERROR.search(line))]
    return "".join(errors[-1:]).strip()


def last_line(text: str) -> str:
    return next((line for line in reversed(text.splitlines()) if line.strip()), "no reason given")


def without_key(text: str, environ: Mapping[str, str]) -> str:
    """Return a text without the key that the environment holds."""
    key = environ.get(API_KEY, "").strip()
    return text.replace(key, API_KEY) if key else text


def online(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the environment without variables that would make the upload offline, or use a service of this process."""
    return {name: value for name, value in environ.items() if name not in ("WANDB_MODE", "WANDB_SERVICE")}
