"""Python for an agent: one snippet in a fresh `pydantic-monty` sandbox, every limit with an error text of its own.

The interpreter has no files, sockets, processes or third-party modules, and it runs in worker processes of its own, so
that nothing a model writes reaches the host. Clock and random numbers are frozen: the same code gives the same text.
"""

from __future__ import annotations

import atexit
import os
import unicodedata
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from threading import Lock
from typing import Any, Literal

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

FROZEN: OSPolicy = {"datetime": datetime(2000, 1, 1), "random_start": {"seed": 0}}
MAX_ERROR_CHARACTERS = 200
STARTING = Lock()
"""Held so that the first calls of several threads start one pool."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """What a snippet printed and its last expression's value, or, if it failed, why in one line."""

    output: str
    failed: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Python:
    """The tool and the limits of one call. Safe to call from several threads; the sandbox runs outside the GIL."""

    seconds: float = 1.0
    """Running time."""
    memory_mb: int = 32
    depth: int = 200
    """Of nested calls."""
    sleep: float = 0.0
    """Seconds asleep, in all."""
    max_characters: int = 1000
    """Of the code, and of the output."""
    processes: int = 2
    """Sandboxes kept warm and shared by all calls."""

    def __post_init__(self) -> None:
        if min(self.seconds, self.memory_mb, self.depth, self.max_characters, self.processes) <= 0 or self.sleep < 0:
            raise ValueError("python: every limit must be positive (sleep may be 0)")

    def run(self, code: str) -> Result:
        """Run `code`; whatever it is, the answer is a Result and never an exception."""
        code = code.strip()
        if not code:
            return Result(output="EmptyError: there is no code to run", failed=True)
        if len(code) > self.max_characters:
            return Result(output=f"LengthError: the code is longer than {self.max_characters} characters", failed=True)
        with STARTING:
            sandboxes = pool(os.getpid(), self.processes)
        with sandboxes.checkout(limits=limits(self), os_policy=FROZEN) as session:
            return self.feed(session, code)

    def feed(self, session: MontySession, code: str) -> Result:
        printed = Printed(self.max_characters)
        try:
            value = session.feed_run(code, print_callback=printed)
            output = (printed.text + show(value, self.max_characters)).rstrip("\n")
        except Exception as error:  # whatever the code did, it ends here
            return Result(output=explain(error, printed, self), failed=True)
        if len(output) > self.max_characters:
            return Result(output=too_much(self), failed=True)
        return Result(output=printable(output) or "None")


class Printed:
    """Collects what a snippet prints and stops it at `limit` characters."""

    def __init__(self, limit: int) -> None:
        self.text, self.limit = "", limit

    def __call__(self, stream: Literal["stdout", "stderr"], text: str) -> None:
        if self.full:
            raise OverflowError
        self.text += text[: self.limit + 1]

    @property
    def full(self) -> bool:
        return len(self.text) > self.limit


@cache
def pool(pid: int, processes: int) -> Monty:
    """Warm sandboxes, one set per process: a forked child must not share its parent's."""
    sandboxes = Monty(max_processes=processes)
    sandboxes.__enter__()
    atexit.register(lambda: sandboxes.__exit__(None, None, None) if os.getpid() == pid else None)
    return sandboxes


def limits(python: Python) -> ResourceLimits:
    return {
        "max_feed_duration_secs": python.seconds,
        "max_memory": python.memory_mb * 2**20,
        "max_recursion_depth": python.depth,
        "max_total_sleep_secs": python.sleep,
        "max_suspensions": 1000,
    }


def show(value: Any, limit: int) -> str:
    """A value as Python prints it, cut soon after `limit` characters; None, which a statement gives, is nothing.

    Not `str`: `x = [x, x]` sixty times is small in the sandbox and without end once written out.
    """
    if value is None or isinstance(value, str):
        return value or ""
    text, waiting = "", [value]
    while waiting and len(text) <= limit:
        part = waiting.pop()
        text += part.text if isinstance(part, Mark) else "" if opened(part, waiting) else leaf(part)
    return text


@dataclass(frozen=True, slots=True)
class Mark:
    """Punctuation of a container that waits to be written."""

    text: str


def opened(value: Any, waiting: list[Any]) -> bool:
    """Put a container's parts on the stack `waiting`, last one first; False if `value` is not a container."""
    kind = type(value)
    if kind not in BRACKETS or (kind is set and not value):
        return False
    left, right = BRACKETS[kind]
    parts: list[Any] = [Mark(left)]
    for index, item in enumerate(value):
        parts += [Mark(", "), item] if index else [item]
        parts += [Mark(": "), value[item]] if kind is dict else []
    waiting.extend(reversed([*parts, Mark(",)" if kind is tuple and len(value) == 1 else right)]))
    return True


def leaf(value: Any) -> str:
    return repr(value) if value is None or isinstance(value, LEAVES) else f"<{type(value).__name__}>"


BRACKETS: dict[type, tuple[str, str]] = {list: ("[", "]"), tuple: ("(", ")"), set: ("{", "}"), dict: ("{", "}")}
LEAVES = (bool, int, float, complex, str, bytes, range)


def explain(error: Exception, printed: Printed, python: Python) -> str:
    """Why a call failed, in one line that the code alone decides: the sandbox's own messages hold measured times."""
    if printed.full:
        return too_much(python)
    if isinstance(error, MontyCrashedError):
        return too_long(python) if error.timed_out else "CrashError: the code stopped the sandbox"
    if not isinstance(error, MontyError):  # a value the host cannot hold or print
        return f"ValueError: the value cannot be shown ({type(error).__name__})"
    message = " ".join(describe(error).split())
    for prefix, text in LIMITS.items():
        if message.startswith(prefix):
            return text(python)
    return printable(message)[:MAX_ERROR_CHARACTERS]


def describe(error: MontyError) -> str:
    return error.display("type-msg") if isinstance(error, MontyRuntimeError | MontySyntaxError) else str(error)


def too_much(python: Python) -> str:
    return f"OutputError: the output is longer than {python.max_characters} characters"


def too_long(python: Python) -> str:
    return f"TimeoutError: the code ran longer than {python.seconds:g} s"


LIMITS: dict[str, Callable[[Python], str]] = {
    "TimeoutError: sleep limit": lambda python: f"SleepError: the code slept longer than {python.sleep:g} s",
    "TimeoutError: feed time limit": too_long,
    "MemoryError": lambda python: f"MemoryError: the code used more than {python.memory_mb} MB",
    "RecursionError": lambda python: f"RecursionError: calls were nested deeper than {python.depth}",
}


def printable(text: str) -> str:
    """`text` without control characters, which could move a terminal's cursor, lone surrogates and the like."""
    return "".join(letter for letter in text if letter in "\n\t" or not unicodedata.category(letter).startswith("C"))
