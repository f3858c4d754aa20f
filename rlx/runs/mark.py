"""Marks by which a run's folder is known to be unchanged, so that it need not be read again."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rlx.runs.attempts import ATTEMPTS, JOB
from rlx.runs.folder import CHECKPOINTS, COMMAND, CONFIG, LOCK, LOGS, METRICS, RESULTS, SUMMARY, TRAJECTORIES
from rlx.runs.lock import read_holder
from rlx.runs.slurm import Record
from rlx.runs.state import ask_slurm, is_at_work, job_of

WATCHED = (
    CONFIG,
    METRICS,
    SUMMARY,
    LOCK,
    COMMAND,
    RESULTS,
    CHECKPOINTS,
    TRAJECTORIES,
    f"{LOGS}/{JOB}",
    f"{LOGS}/{ATTEMPTS}",
)
"""Files and folders by which a run is known to be unchanged."""
ASK = 15.0
"""Seconds after which SLURM is asked again."""

Mark = tuple[Any, ...]


@dataclass
class Jobs:
    """SLURM's records of jobs, as they were some seconds ago."""

    _records: Mapping[str, Record] = field(default_factory=dict)
    _asked: float = -math.inf

    def records(self, folders: Sequence[Path], now: float) -> Mapping[str, Record]:
        """Return the records of these runs' jobs; `now` is the time by a clock that only goes forward."""
        jobs = [job for job in map(job_of, folders) if job]
        if jobs and now - self._asked >= ASK:
            self._records, self._asked = ask_slurm(jobs), now
        return self._records


def mark_of(folder: Path, records: Mapping[str, Record], names: Sequence[str] = WATCHED) -> Mark:
    """Return the values by which an unchanged run is recognised."""
    holder, record = read_holder(folder / LOCK), records.get(job_of(folder))
    return (bool(holder) and is_at_work(holder, record), record, *(size_and_time(folder / name) for name in names))


def size_and_time(path: Path) -> tuple[int, int]:
    """Return the size and the time of a file; -1 where there is none."""
    try:
        file_stat = os.stat(path)
    except (OSError, ValueError):
        return (-1, -1)
    return (file_stat.st_size, file_stat.st_mtime_ns)
