"""`rlx launch`: start the ranks of a run on the machines at hand."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path

from rlx.cluster.watch import watch
from rlx.hardware.command import SIGNALS, start_command
from rlx.hardware.profile import Hardware
from rlx.runs.attempts import record_job
from rlx.runs.folder import reserve_folder
from rlx.runs.slurm import find_job


class LaunchError(RuntimeError):
    """Failure to start a run, or a job that ended badly; the message is one line with the remedy."""

    def __init__(self, message: str, exit_code: int = 2) -> None:
        super().__init__(message)
        self.exit_code = exit_code


def start(hardware: Hardware, folder: Path, words: Sequence[str], limit: int = 3) -> int:
    """Train `words` in `folder` with the profile's processes; return the exit code. Crashed ranks start again from the
    newest checkpoint, at most `limit` times in a row without a new one."""
    check_allocation(hardware)
    folder = folder.absolute()
    job = find_job()
    if job is not None:
        record_job(folder, job, " ".join(words))
    os.environ.setdefault("TORCHELASTIC_SIGNALS_TO_HANDLE", SIGNALS)
    return watch(start_command(hardware, folder, words), folder, limit)


def check_allocation(hardware: Hardware, environ: Mapping[str, str] = os.environ) -> None:
    """Refuse an allocation with fewer nodes than the profile."""
    if hardware.num_nodes == 1:
        return
    have = environ.get("SLURM_JOB_NUM_NODES", "")
    each = hardware.processes_per_node
    if not have.isdecimal() or shutil.which("srun") is None:
        raise LaunchError(
            f"hardware.num_nodes={hardware.num_nodes}, but this is no SLURM allocation: "
            f"`salloc --nodes={hardware.num_nodes} --ntasks-per-node={each}` first, or hydra/launcher=slurm"
        )
    if int(have) < hardware.num_nodes:
        raise LaunchError(f"hardware.num_nodes={hardware.num_nodes}, but this allocation has {have} nodes")


def default_folder(run_dir: str, seed: int, environ: Mapping[str, str] = os.environ) -> Path:
    """Return the folder of a run without a named one: a new one, or the same one for every attempt of a SLURM job."""
    job = find_job(environ)
    return Path(reserve_folder(run_dir)) if job is None else Path(run_dir).parent / f"job-{job}-seed{seed}"
