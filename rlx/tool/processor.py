"""Limits by processor time for processes that others run, so that a busy machine ends no call earlier than an idle one.

A thread of this process sleeps until the first of the watched processes can have used up its time, and looks then. A
call that ends earlier costs two readings of a clock.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from threading import Condition, Lock, Thread

PATIENCE, MINUTE = 10.0, 60.0
SOON = 1e-3
"""Shortest pause between two readings of a clock, in seconds."""


def clock_limit(seconds: float) -> float:
    """Return the time limit by the clock for a call that may use `seconds` of the processor: the last resort, which a
    machine with ten times as many runnable processes as cores does not reach."""
    return PATIENCE * seconds + MINUTE


def processor_time(pid: int) -> float:
    """Return the seconds of processor time that a process has used; OSError where it is gone."""
    return time.clock_gettime((~pid << 3) | 2)  # Linux: CPUCLOCK_SCHED of a process, as clock_getcpuclockid makes it


class Budget:
    """Processor time that one process may still use, and the clock time at which a process with one thread can have
    used it up at the earliest."""

    def __init__(self, pid: int, seconds: float) -> None:
        self.pid, self.spent = pid, False
        self.end, self.look = float("inf"), float("inf")
        with suppress(
            OSError
        ):  # the process is gone, or this kernel is not Linux: then the clock's limit is the only one
            self.end = processor_time(pid) + seconds
            self.look = time.monotonic() + seconds

    def check(self) -> None:
        """Kill the process if its time is over; else say when to look again."""
        try:
            left = self.end - processor_time(self.pid)
        except OSError:
            self.look = float("inf")
            return
        self.spent = left <= 0
        self.look = float("inf") if self.spent else time.monotonic() + max(left, SOON)
        if self.spent:
            with suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGKILL)


class Watcher:
    """A thread that checks budgets when they can have been used up."""

    def __init__(self) -> None:
        self.changed, self.budgets, self.wakes = Condition(), set[Budget](), float("inf")
        self.over = False
        self.thread = Thread(target=self.run, name="processor time", daemon=True)
        self.thread.start()

    def run(self) -> None:
        with self.changed:
            while not self.over:
                for budget in self.budgets:
                    if budget.look <= time.monotonic():
                        budget.check()
                self.wakes = min((budget.look for budget in self.budgets), default=float("inf"))
                pause = self.wakes - time.monotonic()
                self.changed.wait(None if self.wakes == float("inf") else max(pause, SOON))

    def add(self, budget: Budget) -> None:
        with self.changed:
            self.budgets.add(budget)
            if budget.look < self.wakes:
                self.changed.notify()

    def remove(self, budget: Budget) -> None:
        """Watch a budget no more: afterwards its process is not killed."""
        with self.changed:
            self.budgets.discard(budget)

    def end(self) -> None:
        """End the thread."""
        with self.changed:
            self.over = True
            self.changed.notify()
        self.thread.join()


WATCHERS: dict[int, Watcher] = {}
"""Watchers by process: a forked child has no threads of its parent."""
STARTING = Lock()
"""Held while a watcher starts or ends, so that threads whose first calls come together share one."""


def watcher() -> Watcher:
    """Return the watcher of this process, and start it where there is none."""
    with STARTING:
        pid = os.getpid()
        if pid not in WATCHERS:
            WATCHERS[pid] = Watcher()
        return WATCHERS[pid]


def end_watcher() -> None:
    """End the watcher of this process; a later call starts another."""
    with STARTING:
        ended = WATCHERS.pop(os.getpid(), None)
    if ended is not None:
        ended.end()


@contextmanager
def budget(pid: int, seconds: float) -> Iterator[Budget]:
    """Kill a process that uses more than `seconds` of processor time within the block."""
    left, watch = Budget(pid, seconds), watcher()
    watch.add(left)
    try:
        yield left
    finally:
        watch.remove(left)
