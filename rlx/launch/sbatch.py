"""The batch script of a hardware profile, as text: what `hydra/launcher=slurm` asks for, to be submitted by hand."""

from __future__ import annotations

import math
import shlex
from collections.abc import Sequence

from rlx.hardware.profile import Hardware
from rlx.preflight.disk import save_seconds

HOURS = 24
"""Time limit of a job."""
LEAST_GRACE, UPDATE_PER_GB = 300, 2.0
"""Least seconds between a job's warning and its time limit, and further seconds for each GB of its checkpoint. The
further seconds are for the update under way, which grows with the model. The time of the checkpoint is added
(rlx/preflight/disk.py)."""
SLOWER = 1.5
"""Times the measured median that a checkpoint may take."""


def grace_seconds(num_bytes: int, took: float | None = None) -> int:
    """Return how long before its time limit a job must be warned. The job then ends its update and writes a checkpoint
    of `num_bytes`, which `took` so many seconds where a run has measured it."""
    saving = save_seconds(num_bytes) if took is None else SLOWER * took
    return LEAST_GRACE + 60 * math.ceil((UPDATE_PER_GB * num_bytes / 1e9 + saving) / 60)


def sbatch_script(
    hardware: Hardware, words: Sequence[str], memory: int = 0, checkpoint: int = 0, took: float | None = None
) -> str:
    """A task for each learner process; `rlx launch` starts them. `memory`: bytes of each machine's own, 0 for as much
    as the cluster gives by itself; `checkpoint`: bytes of one, which `took` so many seconds where that is measured.
    Partition and account are yours to add."""
    lines = [
        "#!/bin/bash",
        "#SBATCH --job-name=rlx",
        f"#SBATCH --nodes={hardware.num_nodes}",
        f"#SBATCH --ntasks-per-node={hardware.processes_per_node}",
        f"#SBATCH --cpus-per-task={hardware.cpus_per_task}",
        *([f"#SBATCH --gpus-per-node={hardware.devices_per_node}"] if hardware.device == "cuda" else []),
        *([f"#SBATCH --mem={-(-memory // 2**30)}G"] if memory else []),
        f"#SBATCH --time={HOURS}:00:00",
        f"#SBATCH --signal=B:USR2@{grace_seconds(checkpoint, took)}",
        "#SBATCH --requeue",
        "#SBATCH --open-mode=append",
        "exec " + shlex.join(["rlx", "launch", *words]),
    ]
    return "\n".join(lines) + "\n"
