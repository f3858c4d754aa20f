"""Episodes that foreign code plays, each in a process of its own: a Python that has imported the code forks for every
one, so that an episode costs milliseconds, and what it does to memory, generators or itself is its own affair.

    Forks ── control ──> [python: rlx.env.forks_apart, imports the adapter once]
      │                        └─ fork ─┐
      └ begin ── ForkedProcess.ask(line, seconds) ──> [one episode, contained] ──> what came of it, or ApartError

What takes longer than it may is killed, alone. Whoever hangs when rlx is gone is ended by the Python that forked it.
"""

from __future__ import annotations

import atexit
import json
import os
import socket
import subprocess
import sys
from contextlib import suppress
from functools import cache
from pathlib import Path
from struct import pack, unpack
from threading import Lock
from time import monotonic
from typing import Any

from rlx.env.apart import ApartError, StartError

STARTING = 600.0
"""Seconds in which a package must be imported."""
LONGEST = 2**24
"""Bytes of an answer."""
SERVER = Path(__file__).with_name("forks_apart.py")
CONTAIN = Path(__file__).with_name("apart.py")
OPEN: list[Forks] = []


class LateError(ApartError):
    """It took too long."""


class Forks:
    """An adapter in a Python that may be another one's, started when it is first needed and after it ended."""

    def __init__(self, python: str, adapter: str, contained: bool) -> None:
        self.python, self.adapter, self.contained = python, adapter, contained
        self.lock = Lock()
        self.server: subprocess.Popen[bytes] | None = None
        self.control: socket.socket | None = None
        self.known: dict[str, Any] = {}

    def know(self) -> dict[str, Any]:
        """What the adapter said of its package."""
        with self.lock:
            self.started()
            return self.known

    def begin(self) -> ForkedProcess:
        """A process for one episode."""
        with self.lock:
            control = self.started()
            ours, theirs = socket.socketpair()
            with theirs:
                try:
                    socket.send_fds(control, [pack("!ci", b"f", 0)], [theirs.fileno()])
                    (pid,) = unpack("!i", control.recv(4))
                except (OSError, ValueError) as error:
                    ours.close()
                    self.end()
                    raise ApartError(f"{self.adapter}: no process for an episode: {error}") from None
            return ForkedProcess(self, ours, pid)

    def kill(self, pid: int) -> None:
        with self.lock, suppress(OSError):
            if self.control is not None:
                self.control.sendall(pack("!ci", b"k", pid))

    def started(self) -> socket.socket:
        if self.control is None or self.server is None or self.server.poll() is not None:
            self.start()
        assert self.control is not None
        return self.control

    def start(self) -> None:
        self.end()
        self.control, theirs = socket.socketpair()
        told = [self.adapter, str(CONTAIN), str(theirs.fileno()), str(int(self.contained))]
        command = [self.python, "-B", "-c", SERVER.read_text(), *told]
        nowhere, fds = subprocess.DEVNULL, (theirs.fileno(),)
        with theirs:
            self.server = subprocess.Popen(
                command, stdin=nowhere, stdout=nowhere, stderr=nowhere, env=self.settings(), pass_fds=fds
            )
        try:
            self.known = json.loads(heard(self.control, STARTING))
        except (OSError, EOFError) as error:
            self.end()
            raise StartError(f"{self.python} did not start to play {self.adapter}: {error}") from None

    def settings(self) -> dict[str, str]:
        """Another Python has modules of its own."""
        own = {key: value for key, value in os.environ.items() if key != "PYTHONPATH" or self.python == sys.executable}
        return {**own, "PYTHONHASHSEED": "0", "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}

    def end(self) -> None:
        control, self.control = self.control, None
        server, self.server = self.server, None
        if control is not None:
            control.close()
        if server is not None:
            try:
                server.wait(5)  # it ends those that it forked
            except subprocess.TimeoutExpired:
                server.kill()
                server.wait()


class ForkedProcess:
    """One episode's process, for one thread at a time."""

    def __init__(self, forks: Forks, line: socket.socket, pid: int) -> None:
        self.forks, self.line, self.pid = forks, line, pid

    def ask(self, what: Any, seconds: float) -> Any:
        try:
            self.line.settimeout(seconds)
            self.line.sendall(json.dumps(what).encode() + b"\n")
            told = json.loads(heard(self.line, seconds))
        except TimeoutError:
            self.forks.kill(self.pid)
            raise LateError(f"it took longer than {seconds:g} s") from None
        except (OSError, EOFError):
            raise ApartError("its process ended") from None
        if not isinstance(told, dict) or "error" in told:
            raise ApartError(printed(told["error"]) if isinstance(told, dict) else f"no answer is {told!r:.60}")
        return told

    def end(self) -> None:
        """It ends by itself when nobody listens."""
        self.line.close()


def heard(line: socket.socket, seconds: float) -> bytes:
    """One line, where one at a time is said."""
    until, parts = monotonic() + seconds, bytearray()
    while not parts.endswith(b"\n"):
        line.settimeout(max(1e-3, until - monotonic()))
        part = line.recv(1 << 16)
        if not part or len(parts) > LONGEST:
            raise EOFError("it ended" if not part else "it says too much")
        parts += part
    return bytes(parts)


def printed(text: Any) -> str:
    """What a package says, with nothing that could move a terminal's cursor."""
    return "".join(filter(str.isprintable, str(text)))


def forks(python: str, adapter: str, contained: bool) -> Forks:
    """The one of this process: a forked child must not share its parent's."""
    return _forks(python, adapter, contained, os.getpid())


@cache
def _forks(python: str, adapter: str, contained: bool, pid: int) -> Forks:
    OPEN.append(Forks(python, adapter, contained))
    return OPEN[-1]


@atexit.register
def end_all() -> None:
    for one in OPEN:
        if one is _forks(one.python, one.adapter, one.contained, os.getpid()):
            one.end()
