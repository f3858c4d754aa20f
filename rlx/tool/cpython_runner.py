"""Run code of a model in this process, which is forked for it and contained (rlx.contain.server). It imports nothing of
rlx, as another Python may run it."""

from __future__ import annotations

import ast
import bisect
import builtins
import cmath
import collections
import copy
import dataclasses
import datetime
import decimal
import fractions
import functools
import heapq
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
import traceback
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
NAME = "<code>"
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


def answer(asked: dict[str, Any]) -> dict[str, Any]:
    """Run what is asked, and tell its output or its error; or serve a program's values, or examine them."""
    if "serve" in asked:
        return serve(asked["serve"])
    if "examine" in asked:
        return examine(asked["examine"], asked["answers"])
    time.sleep = bounded_sleep(asked["seconds"])
    os._exit = leave  # type: ignore[assignment]
    fd = redirect(asked.get("stdin", ""))
    told = attempt(asked, asked["code"])
    if asked["supply"] and str(told.get("error", "")).startswith("NameError"):
        rewind(fd)
        supplied = IMPORTS + (NUMPY if "numpy" in sys.modules else "")
        told = attempt(asked, asked["code"], supplied)
    output = read_output(fd, asked["most"])
    if "value" in told:
        return {"output": told["value"]}
    return {"output": output, **told, "partial": "ends" in asked}


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


def attempt(asked: dict[str, Any], code: str, before: str = "") -> dict[str, Any]:
    """Run code as the main module. Return its value, its error, or nothing."""
    module = types.ModuleType("__main__")
    sys.modules["__main__"] = module
    space = vars(module)
    space["__builtins__"] = __builtins__
    try:
        exec(before, space)
        execute(code, space, "ends" in asked)
        finish_threads()
        if "expression" in asked:
            return {"value": str(eval(compile(f"({asked['expression']}\n)", NAME, "eval"), space))}
    except SystemExit:
        finish_threads()
        return {"error": "SystemExit"} if "expression" in asked or "serves" in asked else {}
    except MemoryError:
        return {"error": "MemoryError", "memory": True}
    except BaseException as error:
        return {"error": one_line(error)}
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


def one_line(error: BaseException) -> str:
    """Tell an error and the line of the code that it came from."""
    try:
        shown = traceback.format_exception_only(type(error), error)
        text = " ".join((shown[-1] if isinstance(error, SyntaxError) else "".join(shown)).split())
    except BaseException:
        text = type(error).__name__
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == NAME]
    line = error.lineno if isinstance(error, SyntaxError) else (lines[-1] if lines else None)
    return f"{text} (line {line})" if line is not None else text


OBJECTS: list[Any] = []
"""Values of the program that are of no plain type: others hold their places here."""
SEQUENCES: tuple[Any, ...] = (list, tuple, set, frozenset)
WRITE: dict[type, Callable[[Any], str]] = {
    int: lambda value: hex(int(value)),
    float: lambda value: float(value).hex(),
    complex: lambda value: repr(complex(value)),
    bytes: lambda value: bytes(value).hex(),
    range: lambda value: f"{value.start},{value.stop},{value.step}",
    fractions.Fraction: str,
    decimal.Decimal: str,
}
READ: dict[str, Callable[[str], Any]] = {
    "int": lambda text: int(text, 16),
    "float": float.fromhex,
    "complex": complex,
    "bytes": bytes.fromhex,
    "range": lambda text: range(*map(int, text.split(","))),
    "Fraction": fractions.Fraction,
    "Decimal": decimal.Decimal,
}
"""Plain types beside None, bool, str, dict and sequences, as text."""
DEEPEST = 100
ACTS: dict[str, Callable[..., Any]] = {
    "call": lambda function, *values, **named: function(*values, **named),
    "value": lambda value: value,
    "attribute": getattr,
    "item": operator.getitem,
    "length": len,
    "list": list,
    "truth": bool,
    "text": repr,
    "equal": operator.eq,
    "holds": operator.contains,
}
"""What a test may have done with a value that is of no plain type."""


def encode(value: Any, refer: Callable[[Any], list[Any]], depth: int = 0) -> Any:
    """Return a value of plain types as JSON; a subclass as its plain type, and another object as a reference."""
    if value is None or type(value) in (bool, str):
        return value
    if depth > DEEPEST:
        raise ValueError("the value is nested too deep")
    if type(value).__module__ == "numpy" and hasattr(value, "dtype") and value.shape == ():
        value = value.item()
    for kind, write in WRITE.items():
        if isinstance(value, kind):
            return [kind.__name__, write(value)]
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, dict):
        items = [[encode(key, refer, depth + 1), encode(of, refer, depth + 1)] for key, of in dict.items(value)]
        return ["dict", items]
    for sequence in SEQUENCES:
        if isinstance(value, sequence):
            return [sequence.__name__, [encode(part, refer, depth + 1) for part in sequence.__iter__(value)]]
    return refer(value)


def decode(told: Any, resolve: Callable[[str, Any], Any]) -> Any:
    """Return the value of `encode`'s JSON."""
    if not isinstance(told, list):
        return told
    kind, held = told
    if kind in READ:
        return READ[kind](held)
    if kind == "dict":
        return {decode(key, resolve): decode(value, resolve) for key, value in held}
    for sequence in SEQUENCES:
        if sequence.__name__ == kind:
            return sequence(decode(part, resolve) for part in held)
    return resolve(kind, held)


def serve(request: dict[str, Any]) -> dict[str, Any]:
    """Do what a test asks of the program's values, in the program's process, which never sees the test."""
    space = vars(sys.modules["__main__"])

    def resolve(kind: str, held: Any) -> Any:
        if kind == "name" and held not in space:
            raise NameError(f"name {held!r} is not defined")
        return space[held] if kind == "name" else OBJECTS[held]

    def refer(value: Any) -> list[Any]:
        OBJECTS.append(value)
        return ["object", len(OBJECTS) - 1]

    try:
        values = [decode(value, resolve) for value in request["values"]]
        named = {name: decode(value, resolve) for name, value in request["named"].items()}
        return {"value": encode(ACTS[request["act"]](*values, **named), refer)}
    except BaseException as error:
        return {"error": one_line(error)}


class NeededError(BaseException):
    """A test needs an answer of the program's process, and goes on from its beginning when it has that."""


class Remote:
    """A value of the program's in a test: a name, or an object of no plain type, which equals no plain value."""

    def __init__(self, ask: Callable[..., Any], kind: str, held: Any) -> None:
        self._ask, self._reference = ask, [kind, held]

    def __call__(self, *values: Any, **named: Any) -> Any:
        return self._ask("call", self, *values, **named)

    def __getattr__(self, name: str) -> Any:
        return self._ask("attribute", self, name)

    def __getitem__(self, key: Any) -> Any:
        return self._ask("item", self, key)

    def __len__(self) -> int:
        return int(self._ask("length", self))

    def __iter__(self) -> Any:
        return iter(self._ask("list", self))

    def __contains__(self, value: Any) -> bool:
        return self._ask("holds", self, value) is True

    def __bool__(self) -> bool:
        return self._ask("truth", self) is True

    def __repr__(self) -> str:
        return str(self._ask("text", self))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Remote) and self._ask("equal", self, other) is True

    def __hash__(self) -> int:
        return hash(tuple(self._reference))


def examine(expression: str, answers: list[dict[str, Any]]) -> dict[str, Any]:
    """Evaluate a test on what the program answered so far: return whether it holds, or the next request.

    Names that are neither Python's nor a module's are the program's. `inside` says that the test needs none of them, or
    hands the program something that is of no plain type, so that only the program's process can evaluate it.
    """
    left, requests = iter(answers), 0

    def refer(value: Any) -> list[Any]:
        if isinstance(value, Remote):
            return value._reference
        raise TypeError(f"a test hands over a value of type {type(value).__name__}")

    def ask(act: str, *values: Any, **named: Any) -> Any:
        nonlocal requests
        requests += 1
        told = next(left, None)
        if told is None:
            given = [encode(value, refer) for value in values]
            raise NeededError({"act": act, "values": given, "named": {k: encode(v, refer) for k, v in named.items()}})
        if "error" in told:
            raise RuntimeError(told["error"])
        return decode(told["value"], lambda kind, held: Remote(ask, kind, held))

    try:
        tree = ast.parse(f"({expression}\n)", mode="eval")
        space = names_of(tree, ask)
        holds = bool(eval(compile(tree, NAME, "eval"), space))
    except NeededError as needed:
        return {"request": needed.args[0]}
    except BaseException as error:
        return {"inside": True} if not answers and isinstance(error, TypeError) else {"error": one_line(error)}
    return {"holds": holds} if requests else {"inside": True}


def names_of(tree: ast.AST, ask: Callable[..., Any]) -> dict[str, Any]:
    """Bind the names of a test: modules as they are here, and those of the program by reference; by value where
    nothing is called or taken of a name."""
    nodes = list(ast.walk(tree))
    used = {id(node.func) for node in nodes if isinstance(node, ast.Call)}
    used |= {id(node.value) for node in nodes if isinstance(node, (ast.Attribute, ast.Subscript))}
    space: dict[str, Any] = {"__builtins__": __builtins__, **{module.__name__: module for module in (*LIKELY, *MORE)}}
    bound = {node.id for node in nodes if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load)}
    bound |= {node.arg for node in nodes if isinstance(node, ast.arg)}
    for node in nodes:
        if isinstance(node, ast.Name) and node.id not in {*space, *bound, *dir(builtins)}:
            remote = Remote(ask, "name", node.id)
            space[node.id] = remote if id(node) in used else ask("value", remote)
    return space
