"""Ctrl-C, SIGTERM and a scheduler's signals as a polite request: the run stops at the next safe moment, keeps what it
has, and says so."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

STOP = (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1, signal.SIGUSR2, signal.SIGHUP)
"""Signals that ask a run to stop: a person sends the first, a scheduler the next three, ahead of a limit or preemption,
and a terminal that is gone the last."""


class InterruptedRunError(Exception):
    """The run was asked to stop by a signal; `exit_code` is 130 after a person's SIGINT, else 143: it may go on."""

    def __init__(self, signum: int, advice: str = "") -> None:
        super().__init__(f"interrupted by {signal.Signals(signum).name}{advice}")
        self.signum = signum
        self.exit_code = 130 if signum == signal.SIGINT else 143


class Interrupt:
    """Remembers the first signal. A second Ctrl-C stops at once; schedulers repeat themselves, and are heard once."""

    def __init__(self) -> None:
        self.signum = 0

    def receive(self, signum: int, frame: FrameType | None) -> None:
        if self.signum and signum == signal.SIGINT:
            raise KeyboardInterrupt
        self.signum = self.signum or signum

    def check(self) -> None:
        """Raise InterruptedRunError if a signal has come. Called where stopping is safe."""
        if self.signum:
            raise InterruptedRunError(self.signum)


def is_heard(signum: int) -> bool:
    """Under nohup a terminal may go."""
    return not (signum == signal.SIGHUP and signal.getsignal(signum) == signal.SIG_IGN)


@contextmanager
def hearing(receive: Callable[[int, FrameType | None], None]) -> Iterator[None]:
    """Give it the signals of `STOP` for as long as the block lasts."""
    former = {signum: signal.signal(signum, receive) for signum in STOP if is_heard(signum)}
    try:
        yield
    finally:
        for signum, handler in former.items():
            signal.signal(signum, handler)


@contextmanager
def listen() -> Iterator[Interrupt]:
    """Take the signals for the time of a run, and give them back afterwards; within another `listen`, share its ear."""
    outer = getattr(signal.getsignal(signal.SIGTERM), "__self__", None)
    interrupt = outer if isinstance(outer, Interrupt) else Interrupt()
    with hearing(interrupt.receive):
        yield interrupt
