"""The batch script of a hardware profile, as text to submit by hand; `hydra/launcher=slurm` asks for the same."""

from __future__ import annotations

import math
import shlex
from collections.abc import Sequence

from rlx.hardware.profile import Hardware
from rlx.plan.disk import save_seconds
from rlx.plan.prospect import Prospect

HOURS = 24
"""Time limit of a job, in hours."""
LEAST_GRACE, UPDATE_PER_GB = 300, 2.0
"""Least seconds between a job's warning and its time limit, and additional seconds per GB of its checkpoint. The
additional seconds are for the update under way, which grows with the model. An update that is estimated to take longer
counts as long. The time of the checkpoint is added (rlx/plan/disk.py)."""
SLOWER = 1.5
"""Factor between a checkpoint's measured median time and the time allowed for it."""


def grace_seconds(num_bytes: int, took: float | None = None, update: float = 0.0) -> int:
    """Return the seconds before its time limit at which a job must be warned. The job then ends its update and writes a
    checkpoint of `num_bytes`. `took` is the measured time of a checkpoint in seconds, if there is one, and `update` the
    estimated time of the longest update."""
    saving = save_seconds(num_bytes) if took is None else SLOWER * took
    return LEAST_GRACE + 60 * math.ceil((max(UPDATE_PER_GB * num_bytes / 1e9, update) + saving) / 60)


def grace_of(prospect: Prospect) -> int:
    """Return the grace period of a run."""
    return grace_seconds(prospect.checkpoint_bytes, prospect.saving, prospect.longest_update)


def sbatch_script(hardware: Hardware, words: Sequence[str], memory: int = 0, grace: int = LEAST_GRACE) -> str:
    """Build the batch script: a task for each learner process, started by `rlx launch`.

    `memory`: bytes of each machine, 0 for the cluster's default. `grace`: seconds between the warning and the limit.
    The user adds partition and account.
    """
    lines = [
        "#!/bin/bash",
        "#SBATCH --job-name=rlx",
        f"#SBATCH --nodes={hardware.num_nodes}",
        f"#SBATCH --ntasks-per-node={hardware.processes_per_node}",
        f"#SBATCH --cpus-per-task={hardware.cpus_per_task}",
        *([f"#SBATCH --gpus-per-node={hardware.devices_per_node}"] if hardware.device == "cuda" else []),
        *([f"#SBATCH --mem={-(-memory // 2**30)}G"] if memory else []),
        f"#SBATCH --time={HOURS}:00:00",
        f"#SBATCH --signal=B:USR2@{grace}",
        "#SBATCH --requeue",
        "#SBATCH --open-mode=append",
        "exec " + shlex.join(["rlx", "launch", *words]),
    ]
    return "\n".join(lines) + "\n"
