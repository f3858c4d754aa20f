"""Rates of disks that are assumed where a run has not measured its own checkpoints."""

from __future__ import annotations

WRITE, READ = 0.5e9, 1.0e9
"""Bytes a second that one process writes to a shared file system, and reads again for checksums. A busy disk of a
machine here took 0.16 and 0.65 GB/s."""
RATES = f"an assumed {WRITE / 1e9:g} GB/s to write and {READ / 1e9:g} GB/s to read again"


def save_seconds(num_bytes: float) -> float:
    """Estimate the seconds of a checkpoint, for which all processes wait."""
    return num_bytes / WRITE + num_bytes / READ
