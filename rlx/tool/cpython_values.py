"""Values of a program, for tests of it in another process than the program's (rlx.tool.cpython, run_assertion).

    examine   in a process that sees the test and no program: evaluate the test, and ask for values
    serve     in the program's process, which never sees the test: call its functions and return copies

The module imports nothing of rlx, because another Python may run it.
"""

from __future__ import annotations

import ast
import builtins
import cmath
import collections
import copy
import datetime
import decimal
import fractions
import functools
import heapq
import itertools
import json
import math
import operator
import re
import statistics
import string
import sys
import traceback
from collections.abc import Callable
from typing import Any

NAME = "<code>"
MODULES = {
    module.__name__: module
    for module in (
        *(cmath, collections, copy, datetime, decimal, fractions, functools, heapq),
        *(itertools, json, math, operator, re, statistics, string),
    )
}
"""Modules that a test means by their names, whatever the program calls so."""
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
"""Operations of a test on a value that is of no plain type."""


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
        items = [[encode(key, refer, depth + 1), encode(part, refer, depth + 1)] for key, part in dict.items(value)]
        return ["dict", items]
    for sequence in SEQUENCES:
        if isinstance(value, sequence):
            return [sequence.__name__, [encode(part, refer, depth + 1) for part in sequence.__iter__(value)]]
    return refer(value)


def decode(data: Any, resolve: Callable[[str, Any], Any]) -> Any:
    """Return the value of `encode`'s JSON."""
    if not isinstance(data, list):
        return data
    kind, content = data
    if kind in READ:
        return READ[kind](content)
    if kind == "dict":
        return {decode(key, resolve): decode(value, resolve) for key, value in content}
    for sequence in SEQUENCES:
        if sequence.__name__ == kind:
            return sequence(decode(part, resolve) for part in content)
    return resolve(kind, content)


def serve(request: dict[str, Any]) -> dict[str, Any]:
    """Do what a test asks of the program's values, in the program's process, which never sees the test."""
    space = vars(sys.modules["__main__"])

    def resolve(kind: str, place: Any) -> Any:
        if kind == "name" and place not in space:
            raise NameError(f"name {place!r} is not defined")
        return space[place] if kind == "name" else OBJECTS[place]

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

    def __init__(self, ask: Callable[..., Any], kind: str, place: Any) -> None:
        self._ask, self._reference = ask, [kind, place]

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

    Names that are neither Python's nor a module's are the program's. A test that needs none of them, or hands over an
    object of no plain type, can only be evaluated in the program's process: `inside`.
    """
    left, requests = iter(answers), 0

    def refer(value: Any) -> list[Any]:
        if isinstance(value, Remote):
            return value._reference
        raise TypeError(f"a test hands over a value of type {type(value).__name__}")

    def ask(act: str, *values: Any, **named: Any) -> Any:
        nonlocal requests
        requests += 1
        reply = next(left, None)
        if reply is None:
            sent = [encode(value, refer) for value in values]
            raise NeededError({"act": act, "values": sent, "named": {k: encode(v, refer) for k, v in named.items()}})
        if "error" in reply:
            raise RuntimeError(reply["error"])
        return decode(reply["value"], lambda kind, place: Remote(ask, kind, place))

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
    space: dict[str, Any] = {"__builtins__": builtins, **MODULES}
    bound = {node.id for node in nodes if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load)}
    bound |= {node.arg for node in nodes if isinstance(node, ast.arg)}
    for node in nodes:
        if isinstance(node, ast.Name) and node.id not in {*space, *bound, *dir(builtins)}:
            remote = Remote(ask, "name", node.id)
            space[node.id] = remote if id(node) in used else ask("value", remote)
    return space


def one_line(error: BaseException) -> str:
    """Tell an error and the line of the code that it came from."""
    try:
        formatted = traceback.format_exception_only(type(error), error)
        text = " ".join((formatted[-1] if isinstance(error, SyntaxError) else "".join(formatted)).split())
    except BaseException:
        text = type(error).__name__
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == NAME]
    line = error.lineno if isinstance(error, SyntaxError) else (lines[-1] if lines else None)
    return f"{text} (line {line})" if line is not None else text


def answer(request: dict[str, Any]) -> dict[str, Any]:
    """Examine a test: nothing of a program is ever run in this process."""
    return examine(request["examine"], request["answers"])
