"""Resources of this machine: memory, cores, GPUs. The module imports nothing heavy and touches no GPU."""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

DRIVER = Path("/proc/driver/nvidia/gpus")
CGROUP = Path("/sys/fs/cgroup/memory.max")
M_MMAP_THRESHOLD = -3
"""Number of this option in malloc.h."""
LARGE_BLOCK = 2**21
QUERY = ("--query-gpu=name,memory.total", "--format=csv,noheader,nounits")


@dataclass(frozen=True, kw_only=True)
class Gpu:
    """One NVIDIA GPU. `memory` (bytes) is None if only the driver's files name the GPU."""

    name: str
    memory: int | None = None


def machine_memory() -> int | None:
    """Return the bytes of this machine's memory, or of its container's limit; None if unknown."""
    try:
        machine_bytes = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
        text = CGROUP.read_text().strip() if CGROUP.is_file() else "max"
    except (OSError, ValueError):
        return None
    return min(machine_bytes, int(text)) if text.isdigit() else machine_bytes


def give_back_blocks() -> None:
    """Return this process's freed large blocks to the system at once. By default glibc keeps blocks of up to 32 MB in a
    fragmented heap: a long update then takes up to three times the memory that it holds."""
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None) if sys.platform == "linux" else None
    if mallopt is not None:
        mallopt(M_MMAP_THRESHOLD, LARGE_BLOCK)


def num_cores() -> int:
    """Count the cores that this process may use; a container may allow fewer than the machine has."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def gpus(environ: Mapping[str, str] = os.environ) -> list[Gpu]:
    """List the GPUs that this process may use: from nvidia-smi, else from the driver's files, limited by
    CUDA_VISIBLE_DEVICES."""
    devices = _asked() or _listed()
    visible = environ.get("CUDA_VISIBLE_DEVICES")
    if visible is None:
        return devices
    named = [word for word in visible.split(",") if word.strip() and word.strip() != "-1"]
    return devices[: len(named)]


def _asked() -> list[Gpu]:
    if shutil.which("nvidia-smi") is None:
        return []
    try:
        done = subprocess.run(["nvidia-smi", *QUERY], capture_output=True, text=True, timeout=10)
    except (OSError, subprocess.TimeoutExpired):
        return []
    lines = [line.rpartition(",") for line in done.stdout.splitlines()] if done.returncode == 0 else []
    return [Gpu(name=name.strip(), memory=int(mb) * 2**20) for name, _, mb in lines if mb.strip().isdigit()]


def _listed() -> list[Gpu]:
    lines = [line for file in sorted(DRIVER.glob("*/information")) for line in file.read_text().splitlines()]
    return [Gpu(name=line.removeprefix("Model:").strip()) for line in lines if line.startswith("Model:")]


def size(num_bytes: int) -> str:
    """Format a number of bytes: 1.5 GB, 12.0 MB."""
    for unit, scale in (("GB", 10**9), ("MB", 10**6)):
        if num_bytes >= scale:
            return f"{num_bytes / scale:,.1f} {unit}"
    return f"{num_bytes / 1000:,.1f} kB"
