"""Processes that run what may be hostile, such as text of a model, contained by the kernel and started in milliseconds.

    Box ── control ──> [server: imports a module once, in a Python that may be another one]      rlx.tool.contain.server
      │                   └─ fork ─┐
      └ begin(asked) ── Process.hear(seconds) ──> [one process, contained] ──> an answer, or ChildError

A contained process sees Python's libraries, read-only, and a /tmp of its own that ends with it; no network, no other
process, an empty environment. It cannot start a process, and has limits of memory, processor time and files. It ends
when its time is over, when nobody listens, and when rlx ends.

Nothing runs uncontained unless `contained` is false. Where the kernel offers no containment, the first `begin` raises
RefusedError.
"""

from __future__ import annotations

import atexit
import json
import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from itertools import count
from pathlib import Path
from threading import Lock
from typing import Any

from rlx.tool.contain.messages import END, FORK, HEADER, KILL, NUMBER
from rlx.tool.contain.process import (
    ChildError,
    GoneError,
    LateError,
    Process,
    RefusedError,
    StartError,
    read_line,
    receive,
    to_plain,
)

STARTING = 600.0
"""Seconds in which a package must be imported."""
FORKING = 300.0
"""Seconds in which a process must be forked, and what it needs be prepared."""
PACKAGE = Path(__file__).resolve().parents[2]
BOOT = """
import sys
sys.path[:] = [place for place in sys.path if place]
import json, types
settings = json.loads(sys.argv[1])
sys.modules["rlx"] = types.ModuleType("rlx")
sys.modules["rlx"].__path__ = [settings["package"]]
from rlx.tool.contain.server import main
del sys.modules["rlx"]
main(settings)
"""
"""Start of a server, in a Python that need not have rlx."""
PASSED = ("LD_LIBRARY_PATH", "PYTHONUSERBASE", "PYTHONPATH")
"""Variables that a contained Python needs to find its own libraries."""
HOW = (
    "install bubblewrap (apt-get install bubblewrap), or have user namespaces allowed "
    "(sysctl kernel.unprivileged_userns_clone=1, kernel.apparmor_restrict_unprivileged_userns=0)"
)
OPEN: list[Box] = []


@dataclass(frozen=True, kw_only=True)
class Limits:
    """Limits of one process."""

    memory_mb: int = 4096
    """Memory beyond that of the imported module, as address space."""
    cpu_seconds: float = 3600.0
    """Processor time."""


class Box:
    """A server and the processes that it forks; started when first needed, and after it ended. Threads may share it."""

    def __init__(
        self,
        module: str,
        *,
        python: str = sys.executable,
        contained: bool = True,
        readable: Iterable[str] = (),
        preload: Iterable[str] = (),
    ) -> None:
        """`module`: the file of the module; `readable`: more folders that its processes may read; `preload`: modules
        that the server imports if they are installed."""
        self.module, self.python, self.contained, self.readable = module, python, contained, tuple(readable)
        self.preload = tuple(preload)
        self.lock, self.worker_lock = Lock(), Lock()
        self.numbers = count(1)
        self.worker: Process | None = None
        self.server: subprocess.Popen[bytes] | None = None
        self.control: socket.socket | None = None
        self.greeting: dict[str, Any] = {}

    def know(self) -> dict[str, Any]:
        """Return the module's report from its start: `tasks`, or an `error`."""
        with self.lock:
            self.started()
            return self.greeting

    def begin(self, request: Any, limits: Limits, seed: int = 0) -> Process:
        """Start a process with its first request."""
        settings = {"asked": request, "seed": seed, "memory_mb": limits.memory_mb, "cpu_seconds": limits.cpu_seconds}
        body = json.dumps(settings).encode()
        with self.lock:
            control = self.started()
            if "error" in self.greeting:
                raise StartError(to_plain(self.greeting["error"]))
            number = next(self.numbers)
            ours, theirs = socket.socketpair()
            with theirs:
                try:
                    control.settimeout(FORKING)
                    socket.send_fds(control, [HEADER.pack(FORK, number, len(body))], [theirs.fileno()])
                    control.sendall(body)
                    receive(control, NUMBER.size)
                except (OSError, ValueError, EOFError) as error:
                    ours.close()
                    self.stop()
                    raise ChildError(f"no process was started: {error}") from None
            return Process(self, ours, number)

    def ask(self, request: Any, seconds: float, limits: Limits, seed: int = 0) -> Any:
        """Return the answer of a fresh process to one request."""
        process = self.begin(request, limits, seed)
        try:
            return process.hear(seconds).get("value")
        finally:
            process.end()

    def ask_worker(self, request: Any, seconds: float, limits: Limits) -> Any:
        """Return the answer of one process that lives on, to requests that hold no text of a model."""
        with self.worker_lock:
            if self.worker is not None:
                with suppress(GoneError):
                    return self.answer_of(lambda worker: worker.ask(request, seconds))
            self.worker = self.begin(request, limits)
            return self.answer_of(lambda worker: worker.hear(seconds))

    def answer_of(self, ask: Callable[[Process], dict[str, Any]]) -> Any:
        assert self.worker is not None
        try:
            return ask(self.worker).get("value")
        except (GoneError, LateError):
            self.worker = None
            raise

    def kill(self, number: int) -> None:
        """Kill a process, if its server and it still live."""
        with self.lock, suppress(OSError):
            if self.control is not None:
                self.control.sendall(HEADER.pack(KILL, number, 0))

    def end_of(self, number: int) -> int:
        """Kill a process if it still lives, and return how it ended, as `os.waitpid` does; 0 if its server is gone."""
        with self.lock:
            try:
                assert self.control is not None
                self.control.settimeout(FORKING)
                self.control.sendall(HEADER.pack(END, number, 0))
                (status,) = NUMBER.unpack(receive(self.control, NUMBER.size))
            except (AssertionError, OSError, EOFError):
                self.stop()
                return 0
            return int(status)

    def started(self) -> socket.socket:
        if self.control is None or self.server is None or self.server.poll() is not None:
            self.start()
        assert self.control is not None
        return self.control

    def start(self) -> None:
        self.stop()
        self.control, theirs = socket.socketpair()
        nowhere = subprocess.DEVNULL
        with theirs:
            command = [self.python, "-B", "-c", BOOT, json.dumps(self.settings(theirs.fileno()))]
            self.server = subprocess.Popen(
                command,
                stdin=nowhere,
                stdout=nowhere,
                stderr=nowhere,
                env=self.environment(),
                cwd="/",
                pass_fds=(theirs.fileno(),),
                start_new_session=True,
            )
        try:
            self.greeting = json.loads(read_line(self.control, STARTING))
        except (OSError, EOFError) as error:
            self.stop()
            raise StartError(f"{self.python} did not start to run {Path(self.module).stem}: {error}") from None
        if "refused" in self.greeting:
            self.stop()
            raise RefusedError(refusal(to_plain(self.greeting["refused"])))

    def settings(self, control: int) -> dict[str, Any]:
        return {
            "control": control,
            "started": None,
            "contained": self.contained,
            "module": self.module,
            "name": Path(self.module).stem,
            "seen": self.readable,
            "preload": self.preload,
            "path": [place for place in sys.path if place] if self.is_this_python else [],
            "bubblewrap": shutil.which("bwrap"),
            "boot": BOOT,
            "package": str(PACKAGE),
        }

    @property
    def is_this_python(self) -> bool:
        return self.python == sys.executable

    def environment(self) -> dict[str, str]:
        """Return the server's variables: only those of PASSED in a container, and no PYTHONPATH for another Python."""
        passed = [name for name in (PASSED if self.contained else os.environ) if name in os.environ]
        inherited = {name: os.environ[name] for name in passed if name != "PYTHONPATH" or self.is_this_python}
        fixed = {"PYTHONHASHSEED": "0", "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
        return {**inherited, **fixed, "LANG": "C.UTF-8"} if self.contained else {**inherited, **fixed}

    def end(self) -> None:
        with self.lock:
            self.stop()

    def stop(self) -> None:
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


def refusal(why: str) -> str:
    return f"this machine cannot contain text that a model wrote ({why}): {HOW}, or run it uncontained: contained=false"


def box(
    module: str,
    python: str = sys.executable,
    contained: bool = True,
    readable: tuple[str, ...] = (),
    preload: tuple[str, ...] = (),
) -> Box:
    """Return this process's box for a module: a forked child must not share its parent's."""
    return _box(module, python, contained, readable, preload, os.getpid())


def contained_by() -> str:
    """Return what contains processes on this machine; RefusedError where nothing can."""
    trial = Box(str(Path(__file__).with_name("trial.py")))
    try:
        return f"{trial.know()['by']}, seccomp and limits"
    finally:
        trial.end()


@cache
def _box(
    module: str, python: str, contained: bool, readable: tuple[str, ...], preload: tuple[str, ...], pid: int
) -> Box:
    OPEN.append(Box(module, python=python, contained=contained, readable=readable, preload=preload))
    return OPEN[-1]


@atexit.register
def end_all() -> None:
    """End this process's servers; a later request starts others."""
    for open_box in OPEN:
        if open_box is _box(
            open_box.module, open_box.python, open_box.contained, open_box.readable, open_box.preload, os.getpid()
        ):
            open_box.end()
