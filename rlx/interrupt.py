"""Ctrl-C and SIGTERM as a polite request: the run stops at the next safe moment, keeps what it has, and says so."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


class InterruptedRunError(Exception):
    """The run was asked to stop by a signal; `exit_code` is the shell's word for it (130 SIGINT, 143 SIGTERM)."""

    def __init__(self, signum: int) -> None:
        super().__init__(f"interrupted by {signal.Signals(signum).name}")
        self.exit_code = 128 + signum


class Interrupt:
    """Remembers the first signal; a second one stops at once, as Python would."""

    def __init__(self) -> None:
        self.signum = 0

    def receive(self, signum: int, frame: FrameType | None) -> None:
        if self.signum:
            raise KeyboardInterrupt
        self.signum = signum

    def check(self) -> None:
        """Raise InterruptedRunError if a signal has come. Called where stopping is safe."""
        if self.signum:
            raise InterruptedRunError(self.signum)


@contextmanager
def listen() -> Iterator[Interrupt]:
    """Take SIGINT and SIGTERM for the time of a run, and give them back afterwards."""
    interrupt = Interrupt()
    former = {signum: signal.signal(signum, interrupt.receive) for signum in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield interrupt
    finally:
        for signum, handler in former.items():
            signal.signal(signum, handler)
