"""Detection of a rank that hangs: a time limit finds and names it, and ends the run, which is then started again.

Each rank writes its phase, its number of calls to the others and its progress into `ranks/rank-N`. All ranks pass
through the same numbered phases. A thread in each rank reads all files. If the rank that is furthest behind has not
changed for `hardware.step_minutes`, every rank ends with exit code 75. A rank that only waits for others has made one
call more, so it is not blamed. Clocks of other machines are not trusted: a change counts from the time at which this
machine sees it.
"""

from __future__ import annotations

import faulthandler
import json
import os
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

from rlx.base.regular import inside, make_inside, open_new, read_bounded, write_aside
from rlx.hardware.ranks import ALONE, EXIT_RANK_LOST, Ranks
from rlx.runs.folder import RANKS

GRACE = 10.0
"""Seconds that other ranks wait for rank 0 to report first."""


def nothing(*_: object) -> None:
    """Do nothing: the stand-in for an absent callback."""


@dataclass(slots=True, kw_only=True)
class Pulse:
    """State of this rank, as written for the others. The run calls `at` and `beat`; its thread calls the rest."""

    path: Path | None = None
    """File of this rank; None for a run without a watch."""
    ranks: Ranks = ALONE
    number: int = 0
    phase: str = "start"
    since: str = ""
    progress: int = 0
    resting: bool = False
    written: tuple[int, ...] = ()
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def at(self, phase: str, *, resting: bool = False) -> None:
        """Begin a phase, the same on all ranks. A `resting` phase has no time limit."""
        self.number, self.phase, self.progress, self.resting = self.number + 1, phase, 0, resting
        self.since = datetime.now().astimezone().isoformat(timespec="seconds")
        self.write()

    def beat(self) -> None:
        """Record progress within the phase."""
        self.progress += 1

    def write(self) -> None:
        """Write the file if anything has changed."""
        with self._lock:
            calls = self.ranks.calls[0]
            news = (self.number, self.progress, calls)
            if self.path is None or news == self.written:
                return
            state = {"host": socket.gethostname(), "pid": os.getpid(), "phase": self.phase, "since": self.since}
            counts = {"number": self.number, "progress": self.progress, "calls": calls, "resting": self.resting}
            text = json.dumps({**state, **counts})
            write_aside(self.path, text + "\n", sync=False)
            self.written = news


@dataclass(slots=True)
class Seen:
    """Last state read of a rank, and the time of its last change by this machine's clock."""

    state: Mapping[str, Any]
    changed: float


def rank_path(folder: Path, rank: int) -> Path:
    return inside(folder, RANKS) / f"rank-{rank}"


def look(folder: Path, size: int, observations: Mapping[int, Seen], now: float) -> dict[int, Seen]:
    """Read every rank's file. An unreadable file leaves the state of its rank unchanged."""
    new_observations = dict(observations)
    for rank in range(size):
        try:
            state = json.loads(read_bounded(rank_path(folder, rank)))
        except (OSError, ValueError):
            continue
        if rank not in new_observations or new_observations[rank].state != state:
            new_observations[rank] = Seen(state, now)
    return new_observations


def hanging(observations: Mapping[int, Seen], now: float, limit: float) -> int | None:
    """Return the rank furthest behind if it has not changed for `limit` seconds; else None."""
    if not observations:
        return None
    behind = min(place(state) for state in observations.values())
    still = {rank: s.changed for rank, s in observations.items() if place(s) == behind and not s.state["resting"]}
    oldest = min(still, key=lambda rank: (still[rank], rank), default=None)
    return oldest if oldest is not None and now - still[oldest] > limit else None


def place(observation: Seen) -> tuple[int, int]:
    """Return how far a rank has come: the number of its phase, then its number of calls."""
    return observation.state["number"], observation.state["calls"]


def describe(rank: int, state: Mapping[str, Any], minutes: float) -> str:
    rank_name = f"rank {rank} (host {state['host']}, process {state['pid']})"
    return (
        f"{rank_name} hangs: in {state['phase']!r} since {state['since']}, beyond hardware.step_minutes={minutes:g}; "
        "the run stops here, and the same command goes on from its last checkpoint"
    )


@contextmanager
def watch(folder: Path, ranks: Ranks, minutes: float, end: Callable[[int], None] = os._exit) -> Iterator[Pulse]:
    """Write this rank's state and watch all ranks while the block lasts."""
    pulse, over = Pulse(path=rank_path(folder, ranks.rank), ranks=ranks), threading.Event()
    make_inside(folder, RANKS)
    rank_path(folder, ranks.rank).unlink(missing_ok=True)
    ranks.wait()
    pulse.at("start")
    limit = 60 * minutes + (0 if ranks.is_first else min(GRACE, 60 * minutes))

    def run() -> None:
        observations: dict[int, Seen] = {}
        while not over.wait(min(60 * minutes / 8, 5.0)):
            with suppress(OSError):  # a full disk is the run's to tell
                pulse.write()
            observations = look(folder, ranks.size, observations, time.monotonic())
            rank = hanging(observations, time.monotonic(), limit)
            if rank is not None and not over.is_set():
                give_up(folder, ranks.rank, describe(rank, observations[rank].state, minutes))
                end(EXIT_RANK_LOST)

    thread = threading.Thread(target=run, name="pulse", daemon=True)
    thread.start()
    try:
        yield pulse
    finally:
        over.set()
        thread.join()


def give_up(folder: Path, rank: int, message: str) -> None:
    """Name the rank that hangs, and write this rank's stack traces beside its file."""
    print(f"rlx: {message}", file=sys.stderr, flush=True)
    with suppress(OSError):
        path = rank_path(folder, rank).with_suffix(".stacks")
        path.unlink(missing_ok=True)
        with open_new(path) as file:
            faulthandler.dump_traceback(file)
