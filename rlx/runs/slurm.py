"""SLURM's answers about jobs, and requests to it.

Everything goes through scontrol, which every cluster answers. sacct needs accounting; without it a cancelled job looks
like a pending one.
"""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

FIELD = re.compile(r"(\w+)=(\S*)")
TIMEOUT = 60
"""Seconds that SLURM may take to answer."""

WAITING = ("PENDING", "CONFIGURING", "REQUEUED", "REQUEUE_FED", "REQUEUE_HOLD", "RESV_DEL_HOLD", "SPECIAL_EXIT")
ACTIVE = ("RUNNING", "COMPLETING", "SUSPENDED", "STOPPED", "SIGNALING", "STAGE_OUT", "RESIZING")


class SlurmError(RuntimeError):
    """Failure of a SLURM command: missing, silent or refused. The message is one line."""


@dataclass(frozen=True, kw_only=True)
class Record:
    """State of a job in SLURM."""

    state: str
    reason: str = ""
    nodes: str = ""
    is_preempted: bool = False

    @property
    def is_waiting(self) -> bool:
        return self.state in WAITING

    @property
    def is_over(self) -> bool:
        return self.state not in (*WAITING, *ACTIVE)

    @property
    def is_out_of_time(self) -> bool:
        return self.state == "TIMEOUT" or self.reason == "TimeLimit"


def call(*words: str) -> str:
    """Run one of SLURM's programs and return its output."""
    try:
        done = subprocess.run(words, capture_output=True, text=True, timeout=TIMEOUT)
    except FileNotFoundError:
        raise SlurmError(f"{words[0]} is not on PATH: this machine has no SLURM") from None
    except subprocess.TimeoutExpired:
        raise SlurmError(f"{words[0]} did not answer within {TIMEOUT} s") from None
    if done.returncode:
        raise SlurmError(" ".join(done.stderr.split()) or f"{words[0]} failed")
    return done.stdout


def ask(ids: Iterable[str]) -> dict[str, Record]:
    """Return SLURM's records of these jobs (`12`, or `12_3` of an array). SLURM forgets a finished job after some
    minutes."""
    records: dict[str, Record] = {}
    for base in sorted({name.split("_")[0] for name in ids}):
        try:
            records |= read_jobs(call("scontrol", "--oneliner", "show", "job", base))
        except SlurmError as error:
            if "Invalid job id" not in str(error):
                raise
    return records


def read_jobs(text: str) -> dict[str, Record]:
    """Parse scontrol's lines. Waiting tasks of an array share one line."""
    records: dict[str, Record] = {}
    for line in text.splitlines():
        fields = dict(reversed(FIELD.findall(line)))
        if "JobId" not in fields or "JobState" not in fields:
            continue
        record = Record(
            state=fields["JobState"].split("+")[0],
            reason=fields.get("Reason", ""),
            nodes=fields.get("NodeList", "").replace("(null)", ""),
            is_preempted=fields.get("PreemptTime", "None") not in ("None", "Unknown", ""),
        )
        records |= dict.fromkeys(names_of(fields), record)
    return records


def names_of(fields: Mapping[str, str]) -> list[str]:
    """Return a record's job names: `12`; for an array `12_0`, `12_1`, … from `ArrayTaskId=0-1%2`."""
    array, tasks = fields.get("ArrayJobId"), fields.get("ArrayTaskId")
    if not array or not tasks:
        return [fields["JobId"]]
    numbers: list[int] = []
    for part in tasks.split("%")[0].split(","):
        first, _, last = part.partition("-")
        if first.isdecimal() and (last or first).isdecimal():
            numbers += range(int(first), int(last or first) + 1)
    return [f"{array}_{number}" for number in numbers]


def find_job(environ: Mapping[str, str] = os.environ) -> str | None:
    """Return this job's name in the form of SLURM's programs; None outside a job."""
    array, task = environ.get("SLURM_ARRAY_JOB_ID"), environ.get("SLURM_ARRAY_TASK_ID")
    return f"{array}_{task}" if array and task else environ.get("SLURM_JOB_ID")


def requeue(job: str) -> None:
    call("scontrol", "requeue", job)
