"""Threads, processes and half-written files that a run leaves behind."""

from __future__ import annotations

import os
import threading
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

HALF = ("*.partial", "*.part", "*.old")
"""Patterns of files that are being written, and are renamed once complete."""


def present() -> Counter[str]:
    """Count this process's threads and the processes below it, by names such as `thread: rollout_0`."""
    threads = (f"thread: {thread.name}" for thread in threading.enumerate())
    return Counter((*threads, *(f"process: {name} ({pid})" for pid, name in children(os.getpid()))))


def subtract(before: Counter[str], after: Counter[str]) -> list[str]:
    """Describe everything that is present now and was not before, a line each."""
    return [line + (f" x {num}" if num > 1 else "") for line, num in sorted((after - before).items())]


def children(pid: int) -> list[tuple[int, str]]:
    """List all processes below one, by number and name, including those that no parent has waited for."""
    below: dict[int, list[tuple[int, str]]] = {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            name, _, rest = (folder / "stat").read_text().partition("(")[2].rpartition(")")
        except OSError:
            continue
        below.setdefault(int(rest.split()[1]), []).append((int(folder.name), name))
    descendants: list[tuple[int, str]] = []
    waiting = [pid]
    while waiting:
        offspring = below.get(waiting.pop(), [])
        descendants += offspring
        waiting += [number for number, _ in offspring]
    return descendants


def half_written(folders: Sequence[Path]) -> Iterator[Path]:
    return (path for folder in folders for pattern in HALF for path in folder.rglob(pattern))
