"""A sweep as one job array: the request to SLURM, and the outcome of its jobs."""

from __future__ import annotations

import json
import secrets
import shutil
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rlx.console import clean, format_count
from rlx.hardware.command import rank_command, srun_command
from rlx.hardware.packages import how_to_get
from rlx.hardware.profile import Hardware
from rlx.launch.ending import log_of, read_attempts, read_end, record_job
from rlx.launch.sbatch import LEAST_GRACE, grace_of
from rlx.launch.slurm import Record, SlurmError, ask
from rlx.launch.start import LaunchError
from rlx.preflight.prospect import Prospect
from rlx.record.files import last_lines
from rlx.record.folder import LOGS
from rlx.regular import make_parent, write_aside

NOT_SBATCH = ("wait", "max_num_timeout", "submitit_folder", "signal_delay_s")
"""Keys of conf/hydra/launcher/slurm.yaml that are not passed to sbatch."""
SHAPE = ("nodes", "tasks_per_node", "cpus_per_task", "gpus_per_node")
PATIENCE = 20
"""Answers without a record of a job, after which SLURM is taken to have forgotten it."""


@dataclass(frozen=True, kw_only=True)
class Job:
    """One submitted run of the sweep."""

    id: str
    name: str
    folder: Path


def check_slurm() -> None:
    """Refuse a machine without SLURM or submitit, before anything is written."""
    if shutil.which("sbatch") is None:
        raise LaunchError("hydra/launcher=slurm, but there is no sbatch on PATH: run on a cluster's login node")
    try:
        import submitit  # noqa: F401
    except ImportError:
        raise LaunchError(f"hydra/launcher=slurm needs submitit: {how_to_get('slurm')}") from None


def shape_of(hardware: Hardware, params: Mapping[str, Any]) -> dict[str, int]:
    """Return nodes, tasks, processors and GPUs: from the launcher's keys, else from the profile."""
    profile = {
        "nodes": hardware.num_nodes,
        "tasks_per_node": hardware.processes_per_node,
        "cpus_per_task": hardware.cpus_per_task,
        "gpus_per_node": hardware.devices_per_node if hardware.device == "cuda" else 0,
    }
    return {key: profile[key] if params.get(key) is None else params[key] for key in SHAPE}


def one_shape(hardware: Sequence[Hardware], params: Mapping[str, Any]) -> dict[str, int]:
    """Return the shape of all jobs of an array, which must be the same."""
    shapes = [shape_of(profile, params) for profile in hardware]
    if any(shape != shapes[0] for shape in shapes):
        raise LaunchError("a job array has one shape, and this sweep's hardware profiles differ: sweep each by itself")
    return shapes[0]


def sbatch_parameters(shape: Mapping[str, int], params: Mapping[str, Any]) -> dict[str, Any]:
    """Return the parameters of submitit's executor: the launcher's keys without those that are empty."""
    asked = {key: value for key, value in params.items() if key not in (*NOT_SBATCH, *SHAPE) and value is not None}
    extra = {"requeue": True, **(asked.pop("additional_parameters", None) or {})}
    counts = {key: value for key, value in shape.items() if value}
    delay = {key: params[key] for key in ("signal_delay_s",) if params.get(key) is not None}
    return {**asked, **counts, **delay, "additional_parameters": extra, "use_srun": False}


def memory_gb(prospects: Sequence[Prospect]) -> int | None:
    """Return the memory (GiB) of each machine for the largest run, as `rlx plan` estimates it. None on cpu, or if the
    model's shape is unknown."""
    most = max((prospect.host_peak for prospect in prospects), default=0)
    return -(-most // 2**30) or None


def delay_seconds(prospects: Sequence[Prospect]) -> int:
    """Return the grace period that the largest of the runs needs."""
    return max((grace_of(prospect) for prospect in prospects), default=LEAST_GRACE)


def watch_command(shape: Mapping[str, int], limit: int, folders: Path, task: Sequence[str]) -> list[str]:
    """Build the batch script's one command: watch the ranks of this task's run folder."""
    watch = [sys.executable, "-u", "-m", "rlx.launch.watch", "--limit", str(limit), str(folders)]
    ranks = rank_command("{folder}", task)
    return [*watch, *srun_command(shape["nodes"], shape["tasks_per_node"], shape["cpus_per_task"], ranks)]


def list_folders(place: Path, folders: Sequence[Path]) -> Path:
    """Write the run folder of each task of the array into a JSON file; return its path."""
    path = place / f"folders-{secrets.token_hex(4)}.json"
    make_parent(path)
    write_aside(path, json.dumps([str(folder) for folder in folders]) + "\n")
    return path


def names_of(words: Sequence[Sequence[str]], folders: Sequence[Path]) -> list[str]:
    """Name each job by the words that not all jobs share, or by its folder."""
    shared = set.intersection(*(set(each) for each in words))
    return [
        " ".join(word for word in each if word not in shared) or folder.name
        for each, folder in zip(words, folders, strict=True)
    ]


def announce(jobs: Sequence[Job], steps: Sequence[int], say: Callable[[str], None]) -> None:
    """Print the jobs, and record each in its folder."""
    for job, num in zip(jobs, steps, strict=True):
        record_job(job.folder, job.id, job.name, num)
        say(f"job {job.id}: {job.name} in {job.folder}")


def follow(
    jobs: Sequence[Job],
    say: Callable[[str], None],
    *,
    inquire: Callable[[Sequence[str]], Mapping[str, Record]] = ask,
    pause: Callable[[float], None] = time.sleep,
) -> dict[str, Record]:
    """Wait until every job is over and report each at its end; return the last record of each."""
    over: dict[str, Record] = {}
    seen: set[str] = set()
    delay, rounds = 0.5, 0
    while len(over) < len(jobs):
        left = [job for job in jobs if job.id not in over]
        try:
            found = inquire([job.id for job in left])
            rounds += 1
        except SlurmError as error:
            say(f"{error}; asking again")
        else:
            seen |= found.keys()
            for job in left:
                forgotten = forgotten_job(job) if job.id in seen or rounds > PATIENCE else None
                record = found.get(job.id, forgotten)
                if record is not None and record.is_over:
                    over[job.id] = record
                    tell(job, record, say)
        if len(over) < len(jobs):
            pause(delay)
            delay = min(1.3 * delay, 15)
    return over


def forgotten_job(job: Job) -> Record:
    """Return the record of a job that SLURM has forgotten, from its run folder."""
    attempts = read_attempts(job.folder)
    return Record(state="COMPLETED" if attempts and attempts[-1].kind == "finished" else "LOST")


def tell(job: Job, record: Record, say: Callable[[str], None]) -> None:
    """Report a job's end; for a failed job, show the last lines of its log."""
    if record.state == "COMPLETED":
        say(f"job {job.id}: {job.name}: finished")
        return
    if record.state.startswith("CANCELLED"):
        say(f"job {job.id}: {job.name}: was cancelled; the others go on")
        return
    ended = read_end(job.folder)
    log = log_of(job.folder, ended.rank if ended is not None else 0)
    how = f" ({ended})" if ended is not None else ""
    say(f"job {job.id}: {job.name}: {record.state.lower()}{how}; the end of {log}:")
    for line in last_lines(log):
        say(f"    {clean(line)[:300]}")


def refuse_failures(jobs: Sequence[Job], over: Mapping[str, Record]) -> None:
    """Raise LaunchError with the jobs that have no result, if any."""
    bad = [job for job in jobs if over[job.id].state != "COMPLETED"]
    if bad:
        names = "; ".join(f"{job.id} ({job.name}) {over[job.id].state.lower()}" for job in bad[:5])
        raise LaunchError(
            f"{len(bad)} of {format_count(len(jobs), 'job')} did not finish: {names}; logs are in {LOGS}/", exit_code=1
        )
