"""Run code of a model in this process, which is forked for it and contained (rlx.tool.contain.server). This
module imports nothing of rlx, because another Python may run it. Assertions about what the program returns are
examined in cpython_values."""

from __future__ import annotations

import ast
import bisect
import cmath
import collections
import copy
import dataclasses
import datetime
import decimal
import fractions
import functools
import heapq
import importlib.util
import io
import itertools
import json
import math
import operator
import os
import queue
import random
import re
import statistics
import string
import sys
import threading
import time
import types
import typing
from collections.abc import Callable
from contextlib import suppress
from typing import Any

LIKELY = (
    bisect,
    cmath,
    collections,
    copy,
    dataclasses,
    datetime,
    decimal,
    fractions,
    functools,
    heapq,
    itertools,
    json,
)
MORE = (math, operator, queue, random, re, statistics, string, threading, typing)
"""Modules that code is likely to import: once, before processes are forked."""


def load_values() -> Any:
    """Import the module beside this one, which is in no package here."""
    name = "cpython_values"
    spec = importlib.util.spec_from_file_location(name, os.path.join(os.path.dirname(__file__), f"{name}.py"))
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


values = load_values()
NAME: str = values.NAME
IMPORTS = """
import bisect, cmath, collections, copy, datetime, decimal, fractions, functools, heapq, itertools, math, operator
import os, random, re, statistics, string, sys, time
from bisect import bisect_left, bisect_right, insort
from collections import Counter, OrderedDict, defaultdict, deque
from copy import deepcopy
from fractions import Fraction
from functools import cache, cmp_to_key, lru_cache, partial, reduce
from heapq import heapify, heappop, heappush, heapreplace, nlargest, nsmallest
from itertools import accumulate, chain, combinations, count, cycle, groupby, islice, pairwise, permutations, product
from itertools import repeat, zip_longest
from math import atan2, ceil, comb, factorial, floor, gcd, inf, isqrt, log, log2, log10, pi, prod, sqrt
from operator import itemgetter
from string import ascii_lowercase, ascii_uppercase
from typing import Any, Callable, Deque, Dict, Generator, Iterable, Iterator, List, Optional, Set, Tuple, Union
"""
sleep_long = time.sleep
THREAD_STACK = 8 * 2**20
WARMING = 16
"""Runs of a program after which CPython 3.11 and newer change its code no more."""
NUMPY = "\nimport numpy as np"


def answer(request: dict[str, Any]) -> dict[str, Any]:
    """Run a program and return its output or its error; or answer for values of the program that was run."""
    if "serve" in request:
        return dict(values.serve(request["serve"]))
    time.sleep = bounded_sleep(request["seconds"])
    os._exit = leave  # type: ignore[assignment]
    fd = redirect(request.get("stdin", ""))
    outcome = attempt(request, request["code"])
    if request["supply"] and str(outcome.get("error", "")).startswith("NameError"):
        rewind(fd)
        supplied = IMPORTS + (NUMPY if "numpy" in sys.modules else "")
        outcome = attempt(request, request["code"], supplied)
    output = read_output(fd, request["most"])
    if "value" in outcome:
        return {"output": outcome["value"]}
    return {"output": output, **outcome, "partial": "ends" in request}


def warm() -> None:
    """Make the streams, on descriptors that `redirect` puts files in the place of, and run programs: processes that are
    forked afterwards copy less memory."""
    threading.stack_size(THREAD_STACK)
    main = sys.modules["__main__"]
    sys.stdout = standard_stream(1, "w")
    for _ in range(WARMING):
        attempt({"ends": "value"}, "import math\nprint(sum(range(100)), math.pi)\n[x for x in 'ab']")
    sys.stdout.flush()
    sys.modules["__main__"] = main
    sys.stdin, sys.stdout = standard_stream(0, "r"), standard_stream(1, "w")


class SleepError(Exception):
    """A thread has slept longer than it may: a clock's limit would say so later, and later still on a busy machine."""

    __module__ = "builtins"


def bounded_sleep(most: float) -> Callable[[Any], None]:
    """Return `time.sleep` with a limit for all sleep of a thread."""
    slept: dict[int, float] = collections.defaultdict(float)

    def sleep(seconds: Any, /) -> None:
        slept[threading.get_ident()] += seconds
        if slept[threading.get_ident()] > most:
            raise SleepError(f"the code slept longer than {most:g} s")
        sleep_long(seconds)

    return sleep


def leave(status: int = 0) -> None:
    raise SystemExit(status)


def redirect(stdin: str) -> int:
    """Let files be the standard input and output; where none can be written, text in memory."""
    place = os.environ.get("TMPDIR", "/tmp")
    try:
        fds = [os.open(f"{place}/.{name}", os.O_RDWR | os.O_CREAT | os.O_TRUNC) for name in ("stdin", "stdout")]
    except OSError:
        sys.stdin = io.TextIOWrapper(io.BytesIO(stdin.encode("utf-8", "replace")), encoding="utf-8")
        sys.stdout = io.TextIOWrapper(io.BytesIO(), encoding="utf-8", errors="replace")
        return -1
    if stdin:
        left = memoryview(stdin.encode("utf-8", "replace"))
        while left:
            left = left[os.write(fds[0], left) :]
        os.lseek(fds[0], 0, os.SEEK_SET)
    for fd, standard in zip(fds, (0, 1)):
        os.dup2(fd, standard)
        os.close(fd)
    for name in ("stdin", "stdout"):
        os.unlink(f"{place}/.{name}")
    return os.dup(1)


def rewind(fd: int) -> None:
    """Begin again with all input and no output."""
    sys.stdout.flush()
    if fd < 0:
        sys.stdout.seek(0)
        sys.stdout.truncate()
        sys.stdin.seek(0)
        return
    os.ftruncate(fd, 0)
    os.lseek(1, 0, os.SEEK_SET)
    os.lseek(0, 0, os.SEEK_SET)
    sys.stdin = standard_stream(0, "r")


def standard_stream(fd: int, mode: str) -> Any:
    return io.open(fd, mode, encoding="utf-8", errors="replace", closefd=False)  # noqa: UP020


def read_output(fd: int, most: int) -> str:
    """Read what was printed, and a little more than may be shown."""
    with suppress(OSError, ValueError):
        sys.stdout.flush()
    if fd < 0:
        buffer: Any = sys.stdout.buffer
        return bytes(buffer.getvalue()[: 4 * most + 4]).decode("utf-8", "replace")
    return os.pread(fd, 4 * most + 4, 0).decode("utf-8", "replace")


def attempt(request: dict[str, Any], code: str, before: str = "") -> dict[str, Any]:
    """Run code as the main module. Return its value, its error, or nothing."""
    module = types.ModuleType("__main__")
    sys.modules["__main__"] = module
    space = vars(module)
    space["__builtins__"] = __builtins__
    try:
        exec(before, space)
        execute(code, space, "ends" in request)
        finish_threads()
        if "expression" in request:
            return {"value": str(eval(compile(f"({request['expression']}\n)", NAME, "eval"), space))}
    except SystemExit:
        finish_threads()
        return {"error": "SystemExit"} if "expression" in request or "serves" in request else {}
    except MemoryError:
        return {"error": "MemoryError", "memory": True}
    except BaseException as error:
        return {"error": values.one_line(error)}
    return {}


def execute(code: str, space: dict[str, Any], shows_value: bool) -> None:
    """Run a program; print the value of a last expression where that is wanted."""
    tree = ast.parse(code, NAME)
    last = tree.body.pop() if shows_value and tree.body and isinstance(tree.body[-1], ast.Expr) else None
    exec(compile(tree, NAME, "exec"), space)
    if last is not None:
        value = eval(compile(ast.Expression(last.value), NAME, "eval"), space)  # type: ignore[attr-defined]
        if value is not None:
            print(value)


def finish_threads() -> None:
    for thread in threading.enumerate():
        if thread is not threading.current_thread() and not thread.daemon:
            thread.join()
