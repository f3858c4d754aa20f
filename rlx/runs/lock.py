"""Lock of a folder: one holder at a time, on one machine or many.

The lock is the operating system's (flock). Some network file systems grant it to two machines at once, or never. So the
file also names the holder, who touches it regularly; while it is fresh, other machines stay away. A holder counts as
dead if it has lost the lock on this machine, if its file is old, or if it is our own job, started again.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
import re
import socket
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any

from rlx.base.regular import descriptor, read_bounded

POLL = 0.2
"""Seconds between attempts of a process that waits and reports it."""
TOUCH, STALE = 20.0, 120.0
"""Seconds between touches, and age in seconds at which a holder on another machine counts as dead."""
JOB = re.compile(r"[0-9][0-9_+.]{0,40}")
"""Number of a job as SLURM writes it; it is passed to SLURM's programs as a word."""
LARGEST = 10_000
"""Largest lock file in bytes."""
UNKNOWN = (errno.ENOLCK, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS)
"""Errors of a file system without locks. Lustre gives ENOSYS if it is mounted without the option flock."""


class HeldError(Exception):
    """Lock held by another process; the message names the holder."""


def who() -> dict[str, Any]:
    """Describe this process for others."""
    job = os.environ.get("SLURM_JOB_ID", "")
    return {"host": socket.gethostname(), "pid": os.getpid(), "job": job}


def read_holder(path: Path) -> dict[str, Any]:
    """Return the holder of the lock, dead or alive; empty without one."""
    try:
        holder = json.loads(read_bounded(path, LARGEST))
        job = str(holder["job"])
        return {"host": str(holder["host"]), "pid": int(holder["pid"]), "job": job if JOB.fullmatch(job) else ""}
    except (OSError, ValueError, KeyError, TypeError, OverflowError, RecursionError):
        return {}


def describe(holder: Mapping[str, Any]) -> str:
    if not holder:
        return "an unknown process"
    job = f", job {holder['job']}" if holder["job"] else ""
    return f"process {holder['pid']} on {holder['host']}{job}"


def is_alive(holder: Mapping[str, Any], path: Path) -> bool:
    """Return True if a former holder may still be at work, although this process was granted its lock."""
    me = who()
    if not holder or (holder["job"] and holder["job"] == me["job"]):
        return False
    if holder["host"] == me["host"]:  # here flock can be relied upon, and we have it
        return False
    return abs(age(path)) < STALE  # a live holder's last touch is no more in the future than clocks differ


def age(path: Path) -> float:
    """Return the seconds since a file was touched, by the clock of its file system."""
    with tempfile.NamedTemporaryFile(dir=path.parent, prefix=".clock-") as file:
        return os.stat(file.name).st_mtime - path.stat().st_mtime


@contextmanager
def hold(path: Path, *, wait: bool = False, waiting: Callable[[str], None] | None = None) -> Iterator[None]:
    """Hold the lock while the block lasts. If another process has it, raise HeldError, unless `wait`. While another
    process has it, `waiting` is called repeatedly with the holder's name; it may raise to stop."""
    with open(path, "a+", encoding="utf-8", opener=descriptor) as file:
        while waiting is not None and is_locked(file):
            waiting(describe(read_holder(path)))
            time.sleep(POLL)
        take(file, path, wait)
        over = threading.Event()
        thread = threading.Thread(target=keep_fresh, args=(path, over), name="lock", daemon=True)
        thread.start()
        try:
            yield
        finally:
            over.set()
            thread.join()
            sign(file, None)


def is_locked(file: IO[str]) -> bool:
    """Return True if another process has the lock; otherwise this process has taken it."""
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError as error:
        if error.errno not in UNKNOWN:
            raise
    return False


def take(file: IO[str], path: Path, wait: bool) -> None:
    """Take the lock and write this process's name into it."""
    try:
        fcntl.flock(file, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
    except BlockingIOError:
        raise HeldError(describe(read_holder(path))) from None
    except OSError as error:
        if error.errno not in UNKNOWN:
            raise
    while is_alive(holder := read_holder(path), path):
        if not wait:
            raise HeldError(describe(holder))
        time.sleep(TOUCH / 4)
    sign(file, who())


def sign(file: IO[str], holder: Mapping[str, Any] | None) -> None:
    """Write the holder of the lock; None clears it."""
    file.seek(0)
    file.truncate()
    if holder is not None:
        file.write(json.dumps(holder) + "\n")
    file.flush()


def keep_fresh(path: Path, over: threading.Event) -> None:
    while not over.wait(TOUCH):
        with suppress(OSError):
            os.utime(path)
