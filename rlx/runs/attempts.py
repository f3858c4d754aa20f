"""Records of how an attempt at a run ended, and the decision whether to try again.

A run may take many attempts: each begins at the newest checkpoint of the run folder. In its `logs/`:

    rank-N.log        output of rank N, from all attempts
    ended.json        the first rank that ended badly: the others' ends follow from it
    attempts.jsonl    a line per attempt
    job.json          the SLURM job of the run
"""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal

from rlx.base.regular import inside, make_inside, open_new, open_to_append, read_text, write_aside
from rlx.runs.folder import CHECKPOINTS, LOGS, steps_in
from rlx.runs.single_files import read_json

ENDED, ATTEMPTS, JOB = "ended.json", "attempts.jsonl", "job.json"
STOPPED = 143
"""Exit code of a run that a signal stopped after it had saved itself."""
LOST = 75
"""Exit code of a rank that stops because another is lost or hangs (EX_TEMPFAIL: try again)."""

Kind = Literal["finished", "stopped", "lost", "failed"]


@dataclass(frozen=True, kw_only=True)
class Ended:
    """The rank that ended first, with its exit code. A signal's number is negative."""

    rank: int
    code: int

    def __str__(self) -> str:
        how = signal.Signals(-self.code).name if self.code < 0 else f"exit code {self.code}"
        return f"rank {self.rank} ended by {how}" if self.code < 0 else f"rank {self.rank} ended with {how}"


@dataclass(frozen=True, kw_only=True)
class Attempt:
    """One line of attempts.jsonl."""

    kind: Kind
    job: str | None
    before: int
    """Steps of the newest checkpoint at the start of the attempt."""
    after: int
    is_preempted: bool = False
    ended: Ended | None = None


def kind_of(code: int, ended: Ended | None) -> Kind:
    """Classify an end by the launcher's exit code and the first rank's. A crash may be tried again; a program's error
    may not."""
    if ended is None:
        return "finished" if code == 0 else "lost"
    if ended.code in (STOPPED, -signal.SIGTERM, -signal.SIGUSR1, -signal.SIGUSR2, -signal.SIGHUP):
        return "stopped"
    return "lost" if ended.code < 0 or ended.code == LOST else "failed"


def may_go_on(attempts: Sequence[Attempt], limit: int) -> bool:
    """Return True if the run may be tried again: not after a failure, nor after `limit` attempts in a row without
    progress.

    A preempted attempt does not count.
    """
    if not attempts or attempts[-1].kind not in ("stopped", "lost"):
        return False
    in_vain = 0
    for attempt in reversed(attempts):
        if attempt.after > attempt.before or attempt.kind not in ("stopped", "lost"):
            break
        in_vain += not attempt.is_preempted
    return in_vain < limit


def record_end(folder: Path, ended: Ended) -> None:
    """Write ended.json, unless another rank has already written it."""
    try:
        with open_new(inside(folder, LOGS) / ENDED) as file:
            file.write(json.dumps(asdict(ended)).encode())
    except FileExistsError:
        return


def read_end(folder: Path) -> Ended | None:
    record = read_json(inside(folder, LOGS) / ENDED)
    rank, code = record.get("rank"), record.get("code")
    return Ended(rank=rank, code=code) if isinstance(rank, int) and isinstance(code, int) else None


def record_attempt(folder: Path, attempt: Attempt) -> None:
    with open_to_append(inside(folder, LOGS) / ATTEMPTS) as file:
        file.write(f"{json.dumps(asdict(attempt))}\n".encode())


def read_attempts(folder: Path) -> list[Attempt]:
    """Return the complete lines of attempts.jsonl, in order."""
    path = inside(folder, LOGS) / ATTEMPTS
    lines = read_text(path).splitlines() if os.path.lexists(path) else []
    attempts = []
    for line in lines:
        try:
            value = json.loads(line)
            ended = Ended(**value["ended"]) if value["ended"] else None
            attempts.append(Attempt(**{**value, "ended": ended}))
        except (ValueError, TypeError, KeyError):
            continue
    return attempts


def record_job(folder: Path, job: str, name: str, steps: int | None = None) -> None:
    """Write the run's SLURM job into the run folder."""
    write_aside(make_inside(folder, LOGS) / JOB, json.dumps({"job": job, "name": name, "steps": steps}) + "\n")


def newest_step(folder: Path) -> int:
    """Return the steps of the newest checkpoint, from its name; 0 without one."""
    return max(steps_in(inside(folder, CHECKPOINTS)), default=0)


def log_of(folder: Path, rank: int) -> Path:
    return inside(folder, LOGS) / f"rank-{rank}.log"
