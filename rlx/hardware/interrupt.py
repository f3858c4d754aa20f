"""Ctrl-C, SIGTERM and a scheduler's signals as a request to stop. The run stops at the next safe moment, keeps its
results, and reports the interruption."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

STOP = (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1, signal.SIGUSR2, signal.SIGHUP)
"""Signals that ask a run to stop: SIGINT from a person, the next three from a scheduler before a limit or a preemption,
and SIGHUP from a closed terminal."""


class InterruptedRunError(Exception):
    """Stop of the run by a signal. `exit_code` is 130 after a person's SIGINT, else 143: the run may be resumed."""

    def __init__(self, signum: int, advice: str = "") -> None:
        super().__init__(f"interrupted by {signal.Signals(signum).name}{advice}")
        self.signum = signum
        self.exit_code = 130 if signum == signal.SIGINT else 143


class Interrupt:
    """Record of the first signal. A second Ctrl-C stops at once; a scheduler's repeated signals count once."""

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


def is_handled(signum: int) -> bool:
    """Return False for SIGHUP under nohup, which ignores it."""
    return not (signum == signal.SIGHUP and signal.getsignal(signum) == signal.SIG_IGN)


@contextmanager
def handling(receive: Callable[[int, FrameType | None], None]) -> Iterator[None]:
    """Route the signals of `STOP` to `receive` while the block lasts."""
    former = {signum: signal.signal(signum, receive) for signum in STOP if is_handled(signum)}
    try:
        yield
    finally:
        for signum, handler in former.items():
            signal.signal(signum, handler)


@contextmanager
def listen() -> Iterator[Interrupt]:
    """Handle the signals while the block lasts, then restore the former handlers. A nested call shares the outer
    record."""
    outer = getattr(signal.getsignal(signal.SIGTERM), "__self__", None)
    interrupt = outer if isinstance(outer, Interrupt) else Interrupt()
    with handling(interrupt.receive):
        yield interrupt
