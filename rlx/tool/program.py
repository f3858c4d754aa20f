"""Whole programs in the sandbox of rlx.tool.python: the output for a given input, or return values of functions.

    stdin  "3\\n4\\n"     program  a = int(input()) ...     prints  "17\\n"
    after  "repr(f([1, 2]))"                               is "3"

monty has plain classes, comprehensions, recursion and the modules bisect,
collections, datetime, functools, itertools, json, math, re and typing, but no `yield`, `del`, inheritance, heapq or
third-party modules: a program that needs them fails. It has no stdin either: `input` and what programs use of `sys` are
made here. With cpython (rlx.tool.cpython) a program is run as it is.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache
from typing import Any

from pydantic_monty import MontyRuntimeError

from rlx.tool import cpython
from rlx.tool.python import Printed, Python, Sandbox, describe, explain, too_much
from rlx.tool.rounding import ROUND
from rlx.tool.snippet import TOKENS
from rlx.tool.tool import Result

PRELUDE = """
EOFError = IndexError
class _Stdin:
    def __init__(self, text):
        self.text = text
    def readline(self):
        end = self.text.find("\\n") + 1 or len(self.text)
        line, self.text = self.text[:end], self.text[end:]
        return line
    def read(self):
        text, self.text = self.text, ""
        return text
    def readlines(self):
        return self.read().splitlines(True)
class _Stdout:
    def write(self, text):
        print(text, end="")
    def flush(self):
        pass
sys_stdin, sys_stdout = _Stdin(_told), _Stdout()
def input(prompt=None):
    line = sys_stdin.readline()
    if not line:
        raise EOFError("EOF when reading a line")
    return line.rstrip("\\n")
def sys_exit(code=None):
    raise SystemExit
def sys_setrecursionlimit(limit):
    pass
exit = quit = sys_exit
"""
SYS_MEMBERS = ("stdin", "stdout", "exit", "setrecursionlimit")
"""Members of `sys` that the prelude defines."""
IDENTIFIER = re.compile(r"[A-Za-z_]\w*", re.ASCII)
MODULES = ("collections", "datetime", "functools", "itertools", "json", "math", "re")
"""Modules that a test may name as the program does."""
FROM_SYS = re.compile(r"^([^\S\n]*)from sys import ([\w, ]+)$", re.MULTILINE)


def run_programs(python: Python, code: str, stdins: Iterable[str]) -> Iterator[Result]:
    """Yield the program's output for each input, or one line with the reason of its failure. Never raise."""
    if python.interpreter == "cpython":
        yield from (cpython.run_program(python, code, stdin) for stdin in stdins)
        return
    for stdin in stdins:
        with python.session() as sandbox:
            yield begin(python, sandbox, code, stdin)


def run_calls(python: Python, code: str, calls: Iterable[str]) -> Iterator[Result]:
    """The value of each expression after a program, which is run afresh for it; what is printed does not count."""
    if python.interpreter == "cpython":
        yield from (cpython.run_call(python, code, call) for call in calls)
        return
    for call in calls:
        with python.session() as sandbox:
            begun = begin(python, sandbox, code, "")
            yield begun if begun.failed else feed(python, sandbox, f"({call}\n)", lambda value, _: str(value))


def run_assertions(python: Python, code: str, expressions: Iterable[str]) -> Iterator[Result]:
    """Yield `True` for each expression that holds after a program, which is run afresh for it.

    The program's sandbox answers for its names. The expression is evaluated in another sandbox, on copies of values of
    plain types, so that the program sees no right answer and no `__eq__` of it decides. Only a test that calls nothing
    of the program is evaluated beside it.
    """
    if python.interpreter == "cpython":
        yield from (cpython.run_assertion(python, code, expression) for expression in expressions)
        return
    for expression in expressions:
        with python.session() as program:
            begun = begin(python, program, code, "")
            yield begun if begun.failed else examine(python, program, expression)


def examine(python: Python, program: Sandbox, expression: str) -> Result:
    """Evaluate an expression in a sandbox of its own, which calls functions of the program's."""
    calls = Calls(python, program)
    names = {name: calls.of(name) for name in IDENTIFIER.findall(expression)}
    modules = [name for name in MODULES if name in names]
    with python.session("tests") as tests:
        if modules:
            feed(python, tests, f"import {', '.join(modules)}")
        result = feed(python, tests, f"({expression}\n)", lambda value, _: str(bool(value)), lookup=names)
    if calls.failure is not None:
        return calls.failure
    if calls.num == 0:
        return feed(python, program, f"({expression}\n)", lambda value, _: str(value))
    return result


class Calls:
    """Calls of a program's functions from another sandbox: values of plain types go in and come out."""

    def __init__(self, python: Python, program: Sandbox) -> None:
        self.python, self.program, self.num = python, program, 0
        self.failure: Result | None = None
        """Result of the first call that failed: it is that of the test."""

    def of(self, name: str) -> Callable[..., Any]:
        return lambda *values, **named: self.call(name, values, named)

    def call(self, name: str, values: tuple[Any, ...], named: dict[str, Any]) -> Any:
        """Call a function of the program by its name."""
        self.num += 1
        returned: list[Any] = []

        def take(value: Any, _: str) -> str:
            returned.append(value)
            return ""

        inputs = {"_values": list(values), "_named": named}
        result = feed(self.python, self.program, f"{name}(*_values, **_named)", take, inputs=inputs)
        if not result.failed and not is_plain(returned):
            result = Result(output=f"ValueError: {name} returned no value of a plain type", failed=True)
        if result.failed:
            self.failure = self.failure or result
            raise ValueError(result.output)
        return returned[0] if returned else None


def is_plain(value: Any) -> bool:
    """Tell whether a value is of plain types throughout."""
    if type(value) in (list, tuple, set, frozenset):
        return all(map(is_plain, value))
    if type(value) is dict:
        return all(is_plain(part) for pair in value.items() for part in pair)
    return value is None or type(value) in (bool, int, float, complex, str, bytes)


def begin(python: Python, sandbox: Sandbox, code: str, stdin: str) -> Result:
    if len(code) > python.max_characters:
        return Result(output=f"LengthError: the code is longer than {python.max_characters} characters", failed=True)
    prelude = f"{PRELUDE}{ROUND}" if "round" in code else PRELUDE
    result = feed(python, sandbox, prelude, inputs={"_told": stdin})
    return result if result.failed else feed(python, sandbox, f"{with_sys(code)}\nNone")


def feed(
    python: Python,
    sandbox: Sandbox,
    code: str,
    format_output: Callable[[Any, str], str] = lambda value, printed: printed,
    inputs: dict[str, Any] | None = None,
    lookup: dict[str, Any] | None = None,
) -> Result:
    """Run a snippet, and format its last value and its printed text with `format_output`."""
    printed, value = Printed(python.max_output, sandbox.worker), None
    try:
        value = sandbox.session.feed_run(code, inputs=inputs, external_lookup=lookup, print_callback=printed)
    except Exception as error:  # whatever the code did, it ends here
        if not is_exit(error):
            return explain(error, printed, python, sandbox)
    output = format_output(value, printed.text)
    return too_much(python) if len(output) > python.max_output else Result(output=output)


def is_exit(error: Exception) -> bool:
    return isinstance(error, MontyRuntimeError) and describe(error).startswith("SystemExit")


@lru_cache(maxsize=16)
def with_sys(code: str) -> str:
    """The code, with the prelude's names in place of `sys.stdin` and the like; strings and comments stay."""
    code = FROM_SYS.sub(from_sys, code.replace("\r\n", "\n").replace("\r", "\n"))
    tokens = [match[0] for match in TOKENS.finditer(code)]
    pieces: list[str] = []
    while tokens:
        is_made = tokens[:2] == ["sys", "."] and tokens[2:3] and tokens[2] in SYS_MEMBERS and pieces[-1:] != ["."]
        is_listed = is_made and tokens[2] == "stdin" and "".join(pieces).rstrip().endswith(" in")
        pieces.append(f"sys_{tokens[2]}{'.readlines()' * bool(is_listed)}" if is_made else tokens[0])
        del tokens[: 3 if is_made else 1]
    return "".join(pieces)


def from_sys(match: re.Match[str]) -> str:
    """Rewrite `from sys import stdin` with the prelude's names."""
    names = [name.strip() for name in match[2].split(",")]
    return match[1] + "; ".join(
        f"{name} = sys_{name}" if name in SYS_MEMBERS else f"from sys import {name}" for name in names
    )
