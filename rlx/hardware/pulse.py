"""A rank that hangs is found by a time limit, named, and takes the run down with it, to be started again.

Each rank says in a file of its own, `ranks/rank-N`, which phase it is in (all go through the same phases, numbered),
how often it has called the others, and that it gets on. A thread in each reads all files: if the rank that is furthest
behind has not stirred for `hardware.step_minutes`, every rank ends with exit code 75. Ranks that only wait for it have
called once more, so they are not taken for the culprit. Clocks of other machines are not trusted: what counts is when a
change was seen here.
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

from rlx.hardware.ranks import ALONE, GIVEN_UP, Ranks
from rlx.record.folder import RANKS

GRACE = 10.0
"""Seconds that ranks other than the first leave it to speak."""


def nothing(*_: object) -> None:
    """Where there is nothing to do or to tell."""


@dataclass(slots=True, kw_only=True)
class Pulse:
    """Where this rank is. `at` and `beat` are called by the run, the rest by its thread."""

    path: Path | None = None
    """None for a run that nobody watches."""
    ranks: Ranks = ALONE
    number: int = 0
    phase: str = "start"
    since: str = ""
    progress: int = 0
    resting: bool = False
    told: tuple[int, ...] = ()
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def at(self, phase: str, *, resting: bool = False) -> None:
        """A phase begins, the same on all ranks; `resting` has no time limit."""
        self.number, self.phase, self.progress, self.resting = self.number + 1, phase, 0, resting
        self.since = datetime.now().astimezone().isoformat(timespec="seconds")
        self.tell()

    def beat(self) -> None:
        """The phase gets on."""
        self.progress += 1

    def tell(self) -> None:
        """Write the file, if there is news."""
        with self._lock:
            calls = self.ranks.calls[0]
            news = (self.number, self.progress, calls)
            if self.path is None or news == self.told:
                return
            said = {"host": socket.gethostname(), "pid": os.getpid(), "phase": self.phase, "since": self.since}
            counts = {"number": self.number, "progress": self.progress, "calls": calls, "resting": self.resting}
            text = json.dumps({**said, **counts})
            aside = self.path.with_name(self.path.name + ".part")
            aside.write_text(text + "\n", encoding="utf-8")
            os.replace(aside, self.path)
            self.told = news


@dataclass(slots=True)
class Seen:
    """What was last read of a rank, and when it last changed, by this machine's own clock."""

    said: Mapping[str, Any]
    changed: float


def rank_path(folder: Path, rank: int) -> Path:
    return folder / RANKS / f"rank-{rank}"


def look(folder: Path, size: int, seen: Mapping[int, Seen], now: float) -> dict[int, Seen]:
    """Read every rank's file; one that cannot be read is as it was."""
    found = dict(seen)
    for rank in range(size):
        try:
            said = json.loads(rank_path(folder, rank).read_text(encoding="utf-8"))
        except (OSError, ValueError):
            continue
        if rank not in found or found[rank].said != said:
            found[rank] = Seen(said, now)
    return found


def hanging(seen: Mapping[int, Seen], now: float, limit: float) -> int | None:
    """The rank that has not stirred for `limit` seconds while none is behind it."""
    if not seen:
        return None
    behind = min(place(state) for state in seen.values())
    still = {rank: s.changed for rank, s in seen.items() if place(s) == behind and not s.said["resting"]}
    oldest = min(still, key=lambda rank: (still[rank], rank), default=None)
    return oldest if oldest is not None and now - still[oldest] > limit else None


def place(seen: Seen) -> tuple[int, int]:
    """How far a rank has come: its phase, and how often it has called the others."""
    return seen.said["number"], seen.said["calls"]


def describe(rank: int, said: Mapping[str, Any], minutes: float) -> str:
    who = f"rank {rank} (host {said['host']}, process {said['pid']})"
    return (
        f"{who} hangs: in {said['phase']!r} since {said['since']}, beyond hardware.step_minutes={minutes:g}; "
        "the run stops here, and the same command goes on from its last checkpoint"
    )


@contextmanager
def watch(folder: Path, ranks: Ranks, minutes: float, end: Callable[[int], None] = os._exit) -> Iterator[Pulse]:
    """A pulse for this rank, and an eye on everybody's, for as long as the block lasts."""
    pulse, over = Pulse(path=rank_path(folder, ranks.rank), ranks=ranks), threading.Event()
    (folder / RANKS).mkdir(parents=True, exist_ok=True)
    rank_path(folder, ranks.rank).unlink(missing_ok=True)
    ranks.wait()
    pulse.at("start")
    limit = 60 * minutes + (0 if ranks.is_first else min(GRACE, 60 * minutes))

    def run() -> None:
        seen: dict[int, Seen] = {}
        while not over.wait(min(60 * minutes / 8, 5.0)):
            with suppress(OSError):  # a full disk is the run's to tell
                pulse.tell()
            seen = look(folder, ranks.size, seen, time.monotonic())
            rank = hanging(seen, time.monotonic(), limit)
            if rank is not None and not over.is_set():
                give_up(folder, ranks.rank, describe(rank, seen[rank].said, minutes))
                end(GIVEN_UP)

    thread = threading.Thread(target=run, name="pulse", daemon=True)
    thread.start()
    try:
        yield pulse
    finally:
        over.set()
        thread.join()


def give_up(folder: Path, rank: int, message: str) -> None:
    """Say which rank hangs, and leave what this one was doing beside its file."""
    print(f"rlx: {message}", file=sys.stderr, flush=True)
    with suppress(OSError), open(rank_path(folder, rank).with_suffix(".stacks"), "w", encoding="utf-8") as file:
        faulthandler.dump_traceback(file)
