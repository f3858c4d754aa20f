"""State of a run, from its folder and from SLURM's answer about its job. Nothing is changed."""

from __future__ import annotations

import socket
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from rlx.runs.attempts import JOB, read_attempts
from rlx.runs.folder import LOCK, LOGS
from rlx.runs.lock import JOB as JOB_NUMBER
from rlx.runs.lock import read_holder
from rlx.runs.single_files import read_json
from rlx.runs.slurm import Record, SlurmError, ask
from rlx.runs.summary import Ending

State = Literal["queued", "warm start", "running", "stopped", "killed", "finished", "failed", "unreadable"]
"""State of a run. A stopped run has saved itself, a killed one has not; both go on by `rlx resume`. `unreadable` is an
ended run whose summary cannot be read."""
LIVE: tuple[State, ...] = ("warm start", "running")
"""States of a run at work."""
WAITING: tuple[State, ...] = (*LIVE, "queued")
"""States of a run that goes on by itself."""
ENDED: dict[Ending, State] = {"finished": "finished", "failed": "failed", "interrupted": "stopped"}
"""State of a run by the status of its summary."""


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """Last end of a run, by its files."""

    status: Ending | None
    """Status of its summary; None without one."""
    is_extended: bool
    """Its configuration was given more steps since."""
    warms: bool
    """It has a warm start, and nothing of its own yet: no metrics, no episodes."""


def job_of(folder: Path) -> str:
    """Return the current or last SLURM job of a run; empty without one."""
    job = str(read_json(folder, LOGS, JOB).get("job") or read_holder(folder / LOCK).get("job", ""))
    return job if JOB_NUMBER.fullmatch(job) else ""


def ask_slurm(jobs: Sequence[str]) -> Mapping[str, Record]:
    """Return SLURM's records of the jobs; none if SLURM is missing or silent."""
    try:
        return ask(jobs) if jobs else {}
    except SlurmError:
        return {}


def state_of(folder: Path, record: Record | None, outcome: Outcome) -> tuple[State, str]:
    """Return the state of a run, and its place or why it waits. The lock's holder and SLURM take precedence over its
    summary. An orderly end clears the lock, so a dead holder was killed."""
    holder = read_holder(folder / LOCK)
    work: State = "warm start" if outcome.warms else "running"
    if holder and is_at_work(holder, record):
        return work, holder["host"]
    if record is not None and record.is_waiting:
        return "queued", record.reason
    if record is not None and not record.is_over:
        return work, record.nodes
    is_finished = outcome.status == "finished"
    attempts = [] if is_finished else read_attempts(folder)
    if attempts and attempts[-1].kind == "failed":
        return "failed", ""
    if outcome.status is None or (holder and (outcome.is_extended or not is_finished)):
        return "killed", ""
    return ENDED[outcome.status], ""


def is_at_work(holder: Mapping[str, Any], record: Record | None) -> bool:
    """Return True if the process in the lock is alive: looked up on this machine; on another, if its job runs."""
    if holder["host"] == socket.gethostname():
        return Path(f"/proc/{holder['pid']}").exists()
    return record is not None and not record.is_waiting and not record.is_over
