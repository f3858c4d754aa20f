"""The commands that start a run's ranks: srun on several nodes, torchrun on one."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from rlx.hardware.profile import Hardware

SIGNALS = "SIGTERM,SIGINT,SIGHUP,SIGQUIT,SIGUSR1,SIGUSR2"
"""Signals that torchrun passes on to its ranks."""


def rank_command(folder: str, command: Sequence[str]) -> list[str]:
    """Return the command of one rank, which writes its log into the run folder."""
    return [sys.executable, "-u", "-m", "rlx.cluster.rank", folder, *command]


def srun_command(num_nodes: int, tasks_per_node: int, cpus_per_task: int, command: Sequence[str]) -> list[str]:
    """Return the command that starts all ranks of an allocation.

    A rank that crashes takes the others with it. A rank that ends well does not disturb them. srun no longer reads how
    many processors the job asked for, so the command repeats the number.
    """
    counts = [f"--nodes={num_nodes}", f"--ntasks-per-node={tasks_per_node}", f"--cpus-per-task={cpus_per_task}"]
    return ["srun", *counts, "--unbuffered", "--kill-on-bad-exit=1", "--wait=0", *command]


def torchrun_command(num_processes: int, patience: int, command: Sequence[str]) -> list[str]:
    """Return the command that starts all ranks of one machine. Asked to stop, the ranks have `patience` seconds."""
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={num_processes}"]
    return [*torchrun, f"--shutdown-timeout={patience}", "--no-python", *command]


def start_command(hardware: Hardware, folder: Path, words: Sequence[str]) -> list[str]:
    """Return the command that trains these words on the profile's processes."""
    return every_rank(hardware, folder, ["train", *words, f"hydra.run.dir={folder}"])


def every_rank(hardware: Hardware, folder: Path, words: Sequence[str]) -> list[str]:
    """Return the command that runs `rlx` with these words in every process of a profile, with logs in the folder."""
    rank = rank_command(str(folder), [sys.executable, "-u", "-m", "rlx", *words])
    if hardware.num_nodes > 1:
        return srun_command(hardware.num_nodes, hardware.processes_per_node, hardware.cpus_per_task, rank)
    if hardware.num_processes > 1:
        return torchrun_command(hardware.num_processes, round(60 * hardware.step_minutes), rank)
    return rank
