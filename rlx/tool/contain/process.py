"""A contained process, from its parent's side: one line of JSON for each request and each answer, and the errors."""

from __future__ import annotations

import json
import os
import signal
import socket
from time import monotonic
from typing import TYPE_CHECKING, Any

from rlx.base.limits import MistakeError

if TYPE_CHECKING:
    from rlx.tool.contain.box import Box

LONGEST = 2**24
"""Bytes of an answer."""
SPENT = (signal.SIGPROF, signal.SIGXCPU)
"""Signals of the kernel's limits of processor time."""


class ChildError(RuntimeError):
    """A process took too long, ended, or failed; the message is one line."""


class GoneError(ChildError):
    """Its process ended."""


class SpentError(GoneError):
    """Its processor time was used up."""


class LateError(ChildError):
    """It took too long by the clock."""


class StartError(RuntimeError):
    """A server did not start."""


class RefusedError(MistakeError):
    """This machine cannot contain a process; the message is one line with the remedy."""


class Process:
    """One process, for one thread at a time."""

    def __init__(self, box: Box, line: socket.socket, number: int) -> None:
        self.box, self.line, self.number = box, line, number

    def __enter__(self) -> Process:
        return self

    def __exit__(self, *_: object) -> None:
        self.end()

    def ask(self, request: Any, seconds: float) -> dict[str, Any]:
        """Return the answer to one more request."""
        try:
            self.line.settimeout(seconds)
            self.line.sendall(json.dumps(request).encode() + b"\n")
        except TimeoutError:
            raise self.late(seconds) from None
        except OSError:
            raise self.gone() from None
        return self.hear(seconds)

    def hear(self, seconds: float) -> dict[str, Any]:
        """Return an answer: whatever it holds may be hostile."""
        try:
            answer = json.loads(read_line(self.line, seconds))
        except TimeoutError:
            raise self.late(seconds) from None
        except (OSError, EOFError):
            raise self.gone() from None
        except (ValueError, RecursionError):
            answer = None
        if not isinstance(answer, dict) or "error" in answer:
            raise ChildError(to_plain(answer["error"]) if isinstance(answer, dict) else "the answer is no JSON object")
        return answer

    def gone(self) -> GoneError:
        """Return the error of a process that ended, by the signal that ended it."""
        status = self.box.end_of(self.number)
        if os.WIFSIGNALED(status) and os.WTERMSIG(status) in SPENT:
            return SpentError("it used up its processor time")
        return GoneError("its process ended")

    def late(self, seconds: float) -> LateError:
        self.box.kill(self.number)
        return LateError(f"it took longer than {seconds:g} s")

    def end(self) -> None:
        """Kill what may be left of it."""
        self.line.close()
        self.box.kill(self.number)


def receive(line: socket.socket, length: int) -> bytes:
    parts = bytearray()
    while len(parts) < length:
        part = line.recv(length - len(parts))
        if not part:
            raise EOFError("the server ended")
        parts += part
    return bytes(parts)


def read_line(line: socket.socket, seconds: float) -> bytes:
    """Read a line from a peer that writes lines one by one."""
    deadline, parts = monotonic() + seconds, bytearray()
    while not parts.endswith(b"\n"):
        line.settimeout(max(1e-3, deadline - monotonic()))
        part = line.recv(1 << 16)
        if not part or len(parts) > LONGEST:
            raise EOFError("it ended" if not part else "it says too much")
        parts += part
    return bytes(parts)


def to_plain(text: Any) -> str:
    """Return text of another process with nothing that could move a terminal's cursor."""
    return "".join(filter(str.isprintable, str(text)))[:1000]
