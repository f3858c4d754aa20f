"""The batch script of a hardware profile, as text: what `hydra/launcher=slurm` asks for, to be submitted by hand."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

from rlx.hardware.command import cpus_per_task, devices_per_node, processes_per_node
from rlx.hardware.profile import Hardware

HOURS, GRACE = 24, 300
"""The time limit, and the seconds before it at which the job is told: a step's end and a checkpoint must fit in."""


def sbatch_script(hardware: Hardware, words: Sequence[str], memory: int = 0) -> str:
    """A task for each learner process; `rlx launch` starts them. `memory`: bytes of each machine's own, 0 for as much
    as the cluster gives by itself. Partition and account are yours to add."""
    lines = [
        "#!/bin/bash",
        "#SBATCH --job-name=rlx",
        f"#SBATCH --nodes={hardware.num_nodes}",
        f"#SBATCH --ntasks-per-node={processes_per_node(hardware)}",
        f"#SBATCH --cpus-per-task={cpus_per_task(hardware)}",
        *([f"#SBATCH --gpus-per-node={devices_per_node(hardware)}"] if hardware.device == "cuda" else []),
        *([f"#SBATCH --mem={-(-memory // 2**30)}G"] if memory else []),
        f"#SBATCH --time={HOURS}:00:00",
        f"#SBATCH --signal=B:USR2@{GRACE}",
        "#SBATCH --requeue",
        "#SBATCH --open-mode=append",
        "exec " + shlex.join(["rlx", "launch", *words]),
    ]
    return "\n".join(lines) + "\n"
