"""Inventory of a run's objects, threads, processes and files: what a run adds to it is a leak."""

from __future__ import annotations

import gc
import os
import threading
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

CLASS_NAMES = frozenset({"Learner", "Scorer", "TorchEngine", "VllmEngine", "RemoteEngine", "Vllm", "Optimizer", "LLM"})
"""Names of the classes that a run holds; their subclasses count too."""
PACKAGES = ("rlx", "torch.optim", "vllm")
"""Packages that define these classes."""
HALF = ("*.partial", "*.part", "*.old")
"""Patterns of files that are being written, and are renamed once complete."""


def present(scratch: Path | None = None, *folders: Path) -> Counter[str]:
    """Count everything present now, by names such as `thread: rollout_0`.

    The files are those in `scratch`, a temporary folder without other users, and half-written ones in `folders`.
    """
    inventory: dict[str, Iterable[object]] = {
        "object": parts(),
        "thread": (thread.name for thread in threading.enumerate()),
        "process": (f"{name} ({pid})" for pid, name in children(os.getpid())),
        "open file": descriptors(),
        "file": (*(scratch.iterdir() if scratch else ()), *half_written(folders)),
    }
    return Counter(f"{kind}: {name}" for kind, names in inventory.items() for name in names)


def subtract(before: Counter[str], after: Counter[str]) -> list[str]:
    """Describe everything that is present now and was not before, a line each."""
    return [line + (f" x {num}" if num > 1 else "") for line, num in sorted((after - before).items())]


def parts() -> Iterator[str]:
    """Yield the kinds of all live learners, engines and the like."""
    names: dict[type, str] = {}
    for value in gc.get_objects():
        kind = type(value)
        if kind not in names:
            names[kind] = part_of(kind)
        if names[kind]:
            yield names[kind]


def part_of(kind: type) -> str:
    """Return the class's name if a run holds such objects, else an empty string."""
    bases = [base for base in kind.__mro__ if base.__name__ in CLASS_NAMES and base.__module__.startswith(PACKAGES)]
    return kind.__name__ if bases else ""


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


def descriptors() -> Iterator[str]:
    """Yield the open files of this process by path, and its other descriptors by kind."""
    for link in Path("/proc/self/fd").glob("*"):
        try:
            target = os.readlink(link)
        except OSError:  # the folder's own, closed by now
            continue
        yield target if target.startswith("/") else target.partition(":")[0]


def half_written(folders: Sequence[Path]) -> Iterator[Path]:
    return (path for folder in folders for pattern in HALF for path in folder.rglob(pattern))
