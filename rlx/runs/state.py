"""State of the runs below a folder, as recorded in their folders and by SLURM. It imports nothing heavy and changes
nothing."""

from __future__ import annotations

import os
import socket
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rlx.record.files import read_json
from rlx.record.folder import CHECKPOINTS, LOCK, LOGS, METRICS, SUMMARY, TRAJECTORIES, FolderError, read_config
from rlx.record.lock import JOB as JOB_NUMBER
from rlx.record.lock import read_holder
from rlx.record.track import is_number, last_metrics
from rlx.regular import is_regular
from rlx.runs.attempts import JOB, newest_step, read_attempts
from rlx.runs.slurm import Record, SlurmError, ask

RECENT = 20
"""Number of last steps for the rate."""
LONGEST = 1e9
"""Largest number of seconds of a step, 30 years."""
NOT_IN = {CHECKPOINTS, TRAJECTORIES, "wandb", ".submitit", ".hydra", LOGS}
"""Folders of a run that contain no runs."""


@dataclass(frozen=True, kw_only=True)
class Status:
    """State of one run."""

    folder: Path
    state: str
    step: int | None
    """Last step; None for an evaluation, which has no steps."""
    steps: int | None
    seconds: float | None
    """Mean seconds of a recent step."""
    job: str
    where: str

    @property
    def left(self) -> float | None:
        """Estimated seconds until the last step; None unless the run is running or queued."""
        if self.seconds is None or self.step is None or self.steps is None or self.state not in ("running", "queued"):
            return None
        return self.seconds * min(max(0, self.steps - self.step), sys.maxsize)


def read_all(folder: Path) -> list[Status]:
    """Read every run below `folder`, or at it."""
    runs = list(find_runs(folder))
    records = ask_slurm([job for job in map(job_of, runs) if job])
    return [read_status_anyway(run, records) for run in runs]


def find_runs(folder: Path) -> Iterator[Path]:
    """Yield the folders of present and submitted runs, in the order of their names."""
    for place, below, files in os.walk(folder):
        below[:] = sorted(name for name in below if name not in NOT_IN)
        if METRICS in files or SUMMARY in files or is_regular(Path(place) / LOGS / JOB):
            yield Path(place)


def job_of(folder: Path) -> str:
    """Return the current or last SLURM job of a run."""
    job = str(read_json(folder, LOGS, JOB).get("job") or read_holder(folder / LOCK).get("job", ""))
    return job if JOB_NUMBER.fullmatch(job) else ""


def ask_slurm(jobs: Sequence[str]) -> Mapping[str, Record]:
    """Return SLURM's records of the jobs; none if SLURM is missing or silent."""
    try:
        return ask(jobs) if jobs else {}
    except SlurmError:
        return {}


def read_status_anyway(folder: Path, records: Mapping[str, Record]) -> Status:
    """Return the status of a run, or the state `unreadable`, so one bad folder hides no other."""
    try:
        return read_status(folder, records)
    except (OSError, ValueError, LookupError, TypeError, AttributeError, ArithmeticError, RecursionError):
        return Status(folder=folder, state="unreadable", step=None, steps=None, seconds=None, job="", where="")


def read_status(folder: Path, records: Mapping[str, Record]) -> Status:
    job = job_of(folder)
    lines = last_metrics(folder / METRICS, RECENT)
    times = [float(line["time/step"]) for line in lines if is_duration(line.get("time/step"))]
    step = max(newest_step(folder), lines[-1]["step"] if lines else 0)
    record = records.get(job)
    state, where = state_of(folder, record)
    is_evaluation = state == "finished" and not (folder / METRICS).exists()
    return Status(
        folder=folder,
        state=state,
        step=None if is_evaluation else step,
        steps=None if is_evaluation else steps_of(folder, step, is_finished=state == "finished"),
        seconds=sum(times) / len(times) if times else None,
        job=job,
        where=where,
    )


def is_duration(value: Any) -> bool:
    """Return True if a value of a stranger's file is a number of seconds that a step can take."""
    return is_number(value) and 0 <= value <= LONGEST


def state_of(folder: Path, record: Record | None) -> tuple[str, str]:
    """Return running, queued, finished, failed or interrupted, and the place. The lock's holder and SLURM take
    precedence over the run's summary."""
    holder = read_holder(folder / LOCK)
    if holder and is_at_work(holder, record):
        return "running", holder["host"]
    if record is not None and record.is_waiting:
        return "queued", record.reason
    if record is not None and not record.is_over:
        return "running", record.nodes
    said = read_json(folder / SUMMARY).get("status")
    attempts = read_attempts(folder)
    if attempts and attempts[-1].kind == "failed" and said != "finished":
        return "failed", ""
    return (str(said), "") if said in ("finished", "failed") else ("interrupted", "")


def is_at_work(holder: Mapping[str, Any], record: Record | None) -> bool:
    """Return True if the process in the lock is alive: looked up on this machine; on another, if its job runs."""
    if holder["host"] == socket.gethostname():
        return Path(f"/proc/{holder['pid']}").exists()
    return record is not None and not record.is_waiting and not record.is_over


def steps_of(folder: Path, step: int, *, is_finished: bool) -> int | None:
    """Return the number of steps that a run at `step` is to take: those of its summary if it is finished, else of its
    configuration or, before it begins, of its job. No run is past its end: a smaller number than `step` is none."""
    try:
        config = read_config(folder)
    except FolderError:
        config = {}
    ended = read_json(folder / SUMMARY) if is_finished else {}
    said = (part.get("steps") for part in (ended, config, read_json(folder, LOGS, JOB)))
    return next((steps for steps in said if isinstance(steps, int) and steps >= step), None)
