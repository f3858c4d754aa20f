"""Inventory of a run's objects, threads, processes and files, for tests: what a run adds to it is a leak."""

from __future__ import annotations

import gc
import os
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path

from rlx.cluster.check import remains
from rlx.cluster.check.remains import half_written

CLASS_NAMES = frozenset({"Learner", "Scorer", "TorchEngine", "VllmEngine", "RemoteEngine", "Vllm", "Optimizer", "LLM"})
"""Names of the classes that a run holds; their subclasses count too."""
PACKAGES = ("rlx", "torch.optim", "vllm")
"""Packages that define these classes."""


def present(scratch: Path | None = None, *folders: Path) -> Counter[str]:
    """Count everything present now, by names such as `thread: rollout_0`.

    The files are those in `scratch`, a temporary folder without other users, and half-written ones in `folders`.
    """
    found: dict[str, Iterable[object]] = {
        "object": parts(),
        "open file": descriptors(),
        "file": (*(scratch.iterdir() if scratch else ()), *half_written(folders)),
    }
    return remains.present() + Counter(f"{kind}: {name}" for kind, names in found.items() for name in names)


def parts() -> Iterator[str]:
    """Yield the kinds of all live learners, engines and the like."""
    known: dict[type, str] = {}
    for thing in gc.get_objects():
        kind = type(thing)
        if kind not in known:
            known[kind] = part_of(kind)
        if known[kind]:
            yield known[kind]


def part_of(kind: type) -> str:
    """Return the class's name if a run holds such objects, else an empty string."""
    bases = [base for base in kind.__mro__ if base.__name__ in CLASS_NAMES and base.__module__.startswith(PACKAGES)]
    return kind.__name__ if bases else ""


def descriptors() -> Iterator[str]:
    """Yield the open files of this process by path, and its other descriptors by kind."""
    for link in Path("/proc/self/fd").glob("*"):
        try:
            target = os.readlink(link)
        except OSError:  # the folder's own, closed by now
            continue
        yield target if target.startswith("/") else target.partition(":")[0]
