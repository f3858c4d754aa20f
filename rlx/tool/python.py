"""Python for an agent, in one of two interpreters, every limit with an error text of its own.

    monty     a part of Python, in about 0.2 ms a call: no class that inherits, no generator, few modules
    cpython   Python itself with numpy and sympy where they are installed, in a few ms, contained (rlx.tool.cpython)

monty has no files, sockets, processes or third-party modules, and it runs in worker processes of its own, so
that nothing a model writes reaches the host.

The same code gives the same text, in every process. Clock and random numbers are frozen, and the interpreter's hashes
and addresses are functions of the code. All text is made inside: a last expression is printed there, as `print` would,
and no value becomes an object of the host, whose sets have an order of their own. The limit of time is processor time,
which other processes of the machine do not use up; only code that takes nearly as long as it may is cut off on one
machine and not on another. A much longer limit by the clock is the last resort: its hits are counted (`tool/stopped`).

The interpreter decides two things. `print` and `str` write `...` below nesting level `depth`. Text printed without an
end of line reaches the host late, so code that loops afterwards runs until its time limit.
"""

from __future__ import annotations

import atexit
import os
import re
import shlex
import shutil
import signal
import subprocess
import sysconfig
import unicodedata
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from threading import Lock
from typing import ClassVar, Literal

from pydantic_monty import (
    Monty,
    MontyCrashedError,
    MontyError,
    MontyRuntimeError,
    MontySession,
    MontySyntaxError,
    OSPolicy,
    ResourceLimits,
)

from rlx.base.limits import Switch, above, within
from rlx.tool.contain.box import end_all
from rlx.tool.processor import Budget, budget, clock_limit, end_watcher
from rlx.tool.rounding import mend_round
from rlx.tool.snippet import printing
from rlx.tool.tool import Result, Tool
from rlx.types import Verb

FROZEN: OSPolicy = {"datetime": datetime(2000, 1, 1), "random_start": {"seed": 0}}
MAX_ERROR_CHARACTERS = 200
FENCE = re.compile(r"```(?:\w+)?[^\S\n]*\n(.*?)\n?[^\S\n]*```", re.DOTALL)
GRACE = 0.1
"""Seconds a worker may take beyond its limit in an operation that looks at no clock; then it is ended."""
STARTING = Lock()
"""Held so that the first calls of several threads start one pool."""
OPEN: dict[int, ExitStack] = {}
"""Sandboxes by process: a forked child ends its own, not its parent's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Python(Tool):
    """The tool and the limits of one call. Safe to call from several threads; the sandbox runs outside the GIL."""

    verb: ClassVar[Verb] = Verb(name="python", description="run Python", argument="code")

    interpreter: Literal["monty", "cpython"] = "monty"
    """Interpreter: monty (fast, a subset of Python) or cpython (full Python, contained by the kernel)."""
    seconds: float = 1.0
    """Limit of processor time in seconds; by the clock ten times as long and a minute."""
    memory_mb: int = 32
    """Memory limit in MB."""
    depth: int = 500
    """Depth limit of nested calls, and of nested values in the output (monty)."""
    sleep: float = 0.0
    """Time limit of sleep, in seconds (monty; with cpython a thread may sleep for `seconds`)."""
    max_characters: int = 1000
    """Length limit of the code, and of the output unless `output_characters` says another."""
    output_characters: int | None = None
    """Length limit of the output; null: `max_characters`."""
    processes: int = 2
    """Number of warm sandboxes, shared by all episodes; number of concurrent calls with cpython."""
    fenced: bool = True
    """Remove a Markdown fence around the whole code."""
    truncate: bool = False
    """Cut long output off; false: a call with long output fails."""
    supply_imports: bool = False
    """Run code again after common imports if a name is undefined (cpython)."""
    contained: Switch = True
    """Contain code by the kernel (cpython); false: code of a model runs with your own rights."""

    def __post_init__(self) -> None:
        above(0, 3600, seconds=self.seconds)
        within(1, 10**6, memory_mb=self.memory_mb, depth=self.depth, max_characters=self.max_characters)
        within(1, 10**6, output_characters=self.output_characters)
        within(0.0, 3600.0, sleep=self.sleep)
        within(1, 1024, processes=self.processes)

    @property
    def max_output(self) -> int:
        """Length limit of the output."""
        return self.max_characters if self.output_characters is None else self.output_characters

    def run(self, code: str, /) -> Result:
        """Run `code` in the sandbox, and return a Result; nothing is raised, whatever the code does."""
        code = code.strip()
        code = unfence(code) if self.fenced else code
        if not code:
            return Result(output="EmptyError: there is no code to run", failed=True)
        if len(code) > self.max_characters:
            return Result(output=f"LengthError: the code is longer than {self.max_characters} characters", failed=True)
        if self.interpreter == "cpython":
            from rlx.tool.cpython import run_snippet

            return run_snippet(self, code)
        with self.session() as sandbox:
            return self.feed(sandbox, code)

    def check_inputs(self) -> None:
        """Refuse an interpreter that this machine cannot contain."""
        if self.interpreter == "cpython":
            from rlx.tool.cpython import ready_for

            ready_for("", self.contained).know()

    @contextmanager
    def session(self, use: str = "programs") -> Iterator[Sandbox]:
        """Check out a fresh sandbox, for `seconds` of processor time. Each use has its own pool, so a thread that holds
        a sandbox of one use can wait for a sandbox of another."""
        with STARTING:
            sandboxes = pool(os.getpid(), self.processes, use)
        with sandboxes.checkout(limits=limits(self), os_policy=FROZEN, print_flush_interval=0) as session:
            worker = session.worker_pid
            assert worker is not None
            with budget(worker, self.seconds) as time:
                yield Sandbox(session, worker, time)

    def feed(self, sandbox: Sandbox, code: str) -> Result:
        printed = Printed(self.max_output, sandbox.worker)
        try:
            mend_round(sandbox.session, code)
            run(sandbox.session, code, printed)
        except Exception as error:  # whatever the code did, it ends here
            if printed.full and self.truncate:
                return cut(printed.text, self)
            return explain(error, printed, self, sandbox)
        output = printed.text.rstrip("\n")
        if len(output) > self.max_output:
            return cut(output, self)
        return Result(output=printable(output) or "None")


@dataclass(frozen=True, slots=True)
class Sandbox:
    """A session, the process that it runs in, and the time that this process may use."""

    session: MontySession
    worker: int
    time: Budget


class Printed:
    """Collects what a snippet prints. Past `limit` characters and an end of line it ends the worker: the sandbox would
    hear of an exception when the snippet is done."""

    def __init__(self, limit: int, worker: int | None) -> None:
        self.text, self.limit, self.worker = "", limit, worker

    def __call__(self, stream: Literal["stdout", "stderr"], text: str) -> None:
        self.text += text[: self.limit + 2 - len(self.text)]
        if self.full:
            self.stop()

    @property
    def full(self) -> bool:
        return len(self.text) > self.limit + 1

    def stop(self) -> None:
        worker, self.worker = self.worker, None
        if worker is not None:
            os.kill(worker, signal.SIGKILL)
        raise OverflowError


def run(session: MontySession, code: str, printed: Printed) -> None:
    """Run a snippet, and print the value of its last expression, if any."""
    code = code.replace("\r\n", "\n").replace("\r", "\n")
    for printed_code in printing(code):
        try:
            session.feed_run(printed_code, print_callback=printed)
            return
        except MontySyntaxError:  # no expression, or no Python at all: as it stands, it will say so
            pass
    if session.feed_run(code, print_callback=printed) is not None:
        raise UnseenError


class UnseenError(Exception):
    """A last expression that does not look like one."""


@cache
def pool(pid: int, processes: int, use: str) -> Monty:
    """Warm sandboxes, one set per process and use: a forked child must not share its parent's."""
    resources = OPEN.setdefault(pid, ExitStack())
    return resources.enter_context(
        Monty(max_processes=processes, binary_path=interpreter(resources), feed_duration_limit_grace=GRACE)
    )


@atexit.register
def end_sandboxes() -> None:
    """End those of this process; a later call starts others."""
    with STARTING:
        pool.cache_clear()
        OPEN.pop(os.getpid(), ExitStack()).close()
    end_all()
    end_watcher()


def interpreter(resources: ExitStack) -> str | None:
    """Return an in-memory script that runs the interpreter without this process's stderr; no file is left behind."""
    places = os.pathsep.join((sysconfig.get_path("scripts"), os.environ.get("PATH", "")))
    binary = os.environ.get("MONTY_BIN") or shutil.which("monty", path=places)
    if binary is None or not hasattr(os, "memfd_create"):
        return binary
    script = os.memfd_create("monty")
    resources.callback(os.close, script)
    os.write(script, f'#!/bin/sh\nexec {shlex.quote(binary)} "$@" 2>/dev/null\n'.encode())
    quiet = f"/proc/{os.getpid()}/fd/{script}"
    return quiet if starts(quiet) else binary


def starts(binary: str) -> bool:
    try:
        return subprocess.run([binary, "--version"], capture_output=True, timeout=10).returncode == 0
    except (OSError, subprocess.SubprocessError):
        return False


def limits(python: Python) -> ResourceLimits:
    return {
        "max_feed_duration_secs": clock_limit(python.seconds),
        "max_memory": python.memory_mb * 2**20,
        "max_recursion_depth": python.depth,
        "max_total_sleep_secs": python.sleep,
        "max_suspensions": 1000,
    }


def explain(error: Exception, printed: Printed, python: Python, sandbox: Sandbox) -> Result:
    """Return the failure of a call, in one line that the code alone decides: the sandbox's messages hold measured
    times. The limit by the clock is the exception, so its result says so."""
    if printed.full:
        return too_much(python)
    if sandbox.time.spent:
        return failure(too_long(python))
    if isinstance(error, MontyCrashedError):
        return too_late(python) if error.timed_out else failure("CrashError: the code stopped the sandbox")
    if not isinstance(error, MontyError):  # UnseenError, or a value that the host cannot hold
        return failure("ValueError: the last value cannot be shown; print it")
    message = " ".join(describe(error).split())
    if message.startswith("TimeoutError: feed time limit"):
        return too_late(python)
    for prefix, text in LIMITS.items():
        if message.startswith(prefix):
            return failure(text(python))
    return failure(printable(message)[:MAX_ERROR_CHARACTERS])


def failure(text: str) -> Result:
    return Result(output=text, failed=True)


def describe(error: MontyError) -> str:
    return error.display("type-msg") if isinstance(error, MontyRuntimeError | MontySyntaxError) else str(error)


def too_much(python: Python) -> Result:
    return failure(f"OutputError: the output is longer than {python.max_output} characters")


def cut(output: str, python: Python) -> Result:
    """Return the result for output that is too long."""
    if python.truncate:
        return Result(output=f"{printable(output[: python.max_output])}\n... (cut off)")
    return too_much(python)


def unfence(code: str) -> str:
    """Remove a Markdown fence that stands around all of the code."""
    match = FENCE.fullmatch(code)
    return match[1].strip() if match else code


def too_long(python: Python) -> str:
    return f"TimeoutError: the code ran longer than {python.seconds:g} s"


def too_late(python: Python) -> Result:
    """Return the result for a call that the clock ended, although it had processor time left."""
    text = f"TimeoutError: the code had not ended after {clock_limit(python.seconds):g} s by the clock"
    return Result(output=text, failed=True, stopped=True)


LIMITS: dict[str, Callable[[Python], str]] = {
    "TimeoutError: sleep limit": lambda python: f"SleepError: the code slept longer than {python.sleep:g} s",
    "MemoryError": lambda python: f"MemoryError: the code used more than {python.memory_mb} MB",
    "RecursionError": lambda python: f"RecursionError: calls were nested deeper than {python.depth}",
}


def printable(text: str) -> str:
    """`text` without control characters, which could move a terminal's cursor, lone surrogates and the like."""
    return "".join(letter for letter in text if letter in "\n\t" or not unicodedata.category(letter).startswith("C"))
