"""Code that hostile text may hang, break or lead astray, in a Python of its own: asked in lines of JSON, one at a time,
and killed when it takes too long.

    ask(what, seconds) --line--> [python -m MODULE: serve(answer), contained] --line--> what came of it, or ApartError

Its global state is its own. Once it answers it can no longer write files, start processes or open sockets: limits of
the kernel and an audit hook see to that.
"""

from __future__ import annotations

import atexit
import json
import os
import select
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from threading import Lock
from time import monotonic
from typing import Any, NoReturn

STARTING = 120.0
"""Seconds in which it must be ready."""
MEMORY = 4 * 2**30
"""Bytes of address space that it may take."""
WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
HARMLESS = {"os.listdir", "os.scandir", "os.walk", "os.fwalk"}
FORBIDDEN = (
    "os",
    "subprocess",
    "socket",
    "shutil",
    "ctypes",
    "pty",
    "signal",
    "tempfile",
    "fcntl",
    "mmap",
    "webbrowser",
)
"""Families of events that an audit hook refuses, but for the harmless."""
OPEN: list[Apart] = []


class ApartError(RuntimeError):
    """It took too long, ended, or failed; the message is one line."""


class StartError(RuntimeError):
    """It did not start."""


class Apart:
    """A module that calls `serve`, started when it is first asked and after it was killed. Threads may share it."""

    def __init__(self, module: str) -> None:
        self.module, self.lock = module, Lock()
        self.child: subprocess.Popen[bytes] | None = None
        self.heard = b""

    def ask(self, what: Any, seconds: float) -> Any:
        with self.lock:
            if self.child is None or self.child.poll() is not None:
                self.start()
            said = json.loads(self.exchange(json.dumps(what).encode() + b"\n", seconds))
        if "error" in said:
            raise ApartError(said["error"])
        return said["value"]

    def start(self) -> None:
        self.end()
        command = [sys.executable, "-B", "-m", self.module]
        settings = {**os.environ, "PYTHONHASHSEED": "0", "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
        pipe = subprocess.PIPE
        self.child = subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL, env=settings)
        try:
            self.exchange(b"", STARTING)
        except ApartError as error:
            raise StartError(f"{error} as it started: python -m {self.module} says why") from None

    def exchange(self, line: bytes, seconds: float) -> bytes:
        """Say a line and hear one."""
        assert self.child is not None
        assert self.child.stdin is not None
        try:
            self.child.stdin.write(line)
            self.child.stdin.flush()
        except OSError:
            self.fail("ended")
        until = monotonic() + seconds
        while b"\n" not in self.heard:
            self.heard += self.listen(until, seconds)
        heard, _, self.heard = self.heard.partition(b"\n")
        return heard

    def listen(self, until: float, seconds: float) -> bytes:
        assert self.child is not None
        assert self.child.stdout is not None
        if not select.select([self.child.stdout], [], [], max(0.0, until - monotonic()))[0]:
            self.fail(f"took longer than {seconds:g} s")
        return os.read(self.child.stdout.fileno(), 1 << 16) or self.fail("ended")

    def fail(self, why: str) -> NoReturn:
        self.end()
        raise ApartError(f"{self.module} {why}")

    def end(self) -> None:
        child, self.child, self.heard = self.child, None, b""
        if child is not None:
            child.kill()
            child.wait()
            for pipe in (child.stdin, child.stdout):
                if pipe is not None:
                    with suppress(OSError):
                        pipe.close()


def apart(module: str) -> Apart:
    """The one of this process: a forked child must not share its parent's."""
    return _apart(module, os.getpid())


@cache
def _apart(module: str, pid: int) -> Apart:
    OPEN.append(Apart(module))
    return OPEN[-1]


@atexit.register
def end_all() -> None:
    for one in OPEN:
        if one is _apart(one.module, os.getpid()):
            one.end()


# In the child.


def serve(answer: Callable[[Any], Any]) -> None:
    """Answer line by line until the asker is gone. What else is printed goes nowhere."""
    said = os.fdopen(os.dup(1), "w", encoding="ascii")
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    contain()
    print("ready", file=said, flush=True)
    for line in sys.stdin:
        try:
            reply = {"value": answer(json.loads(line))}
        except Exception as error:
            reply = {"error": f"{type(error).__name__}: {' '.join(str(error).split())[:300]}"}
        print(json.dumps(reply), file=said, flush=True)


def contain() -> None:
    import resource

    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    sys.addaudithook(refuse_event)


def refuse_event(event: str, told: tuple[Any, ...]) -> None:
    writes = event == "open" and isinstance(told[2], int) and told[2] & WRITING
    if writes or (event.partition(".")[0] in FORBIDDEN and event not in HARMLESS):
        raise PermissionError(f"{event} is not for what is judged")
