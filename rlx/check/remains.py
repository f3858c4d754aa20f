"""What is there of runs: in this process, below it and in folders. Counted before and after a run, what is new was left
by it."""

from __future__ import annotations

import gc
import os
import threading
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

PARTS = frozenset({"Learner", "Scorer", "TorchEngine", "VllmEngine", "RemoteEngine", "Vllm", "Optimizer", "LLM"})
"""Classes of what a run is made of, by name; their subclasses are meant too."""
PACKAGES = ("rlx", "torch.optim", "vllm")
"""Where these classes are defined."""
HALF = ("*.partial", "*.part", "*.old")
"""Names of what is written aside, to be renamed when it is whole."""


def present(scratch: Path | None = None, *folders: Path) -> Counter[str]:
    """Now, as `thread: rollout_0`: all that is in `scratch`, a folder for temporary files that nobody else writes to,
    and what is half written in `folders`, among it."""
    found: dict[str, Iterable[object]] = {
        "object": parts(),
        "thread": (thread.name for thread in threading.enumerate()),
        "process": (f"{name} ({pid})" for pid, name in children(os.getpid())),
        "open file": descriptors(),
        "file": (*(scratch.iterdir() if scratch else ()), *half_written(folders)),
    }
    return Counter(f"{kind}: {name}" for kind, names in found.items() for name in names)


def left(before: Counter[str], after: Counter[str]) -> list[str]:
    """What there is now and was not, a line each."""
    return [line + (f" x {num}" if num > 1 else "") for line, num in sorted((after - before).items())]


def parts() -> Iterator[str]:
    """Learners, engines and the like that are alive, whoever holds them."""
    known: dict[type, str] = {}
    for thing in gc.get_objects():
        kind = type(thing)
        if kind not in known:
            known[kind] = part_of(kind)
        if known[kind]:
            yield known[kind]


def part_of(kind: type) -> str:
    """The class's name if it is one of a run's parts."""
    bases = [base for base in kind.__mro__ if base.__name__ in PARTS and base.__module__.startswith(PACKAGES)]
    return kind.__name__ if bases else ""


def children(pid: int) -> list[tuple[int, str]]:
    """All processes below one, by number and name, those that nobody has waited for among them."""
    below: dict[int, list[tuple[int, str]]] = {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            name, _, rest = (folder / "stat").read_text().partition("(")[2].rpartition(")")
        except OSError:
            continue
        below.setdefault(int(rest.split()[1]), []).append((int(folder.name), name))
    found: list[tuple[int, str]] = []
    waiting = [pid]
    while waiting:
        young = below.get(waiting.pop(), [])
        found += young
        waiting += [number for number, _ in young]
    return found


def descriptors() -> Iterator[str]:
    """What this process has open: files by path, the others by kind."""
    for link in Path("/proc/self/fd").glob("*"):
        try:
            target = os.readlink(link)
        except OSError:  # the folder's own, closed by now
            continue
        yield target if target.startswith("/") else target.partition(":")[0]


def half_written(folders: Sequence[Path]) -> Iterator[Path]:
    return (path for folder in folders for pattern in HALF for path in folder.rglob(pattern))
