"""Python code of a model in CPython, contained by the kernel (rlx.contain).

Each call has a fresh process, forked from a Python that has imported likely modules. So no call sees another.

    code --names numpy, sympy ...?--> [a Python that has imported those]  or  [plain: the standard library]

Random numbers begin with the same seed in every call, hashes are fixed, and addresses in the output are removed; clocks
are not frozen, so code that prints a time prints another one next time.
"""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from threading import BoundedSemaphore
from typing import TYPE_CHECKING, Any

from rlx.contain.box import Box, Limits, box
from rlx.contain.process import ChildError, LateError, SpentError, StartError
from rlx.tool.processor import clock_limit

if TYPE_CHECKING:
    from rlx.tool.python import Python
    from rlx.tool.tool import Result

RUNNER = str(Path(__file__).with_name("cpython_runner.py"))
SCIENCE = {
    "numpy": re.compile(r"\b(?:numpy|scipy|pandas|np)\b"),
    "sympy": re.compile(r"\b(?:sympy|mpmath|sp)\b"),
}
"""Modules, and the words of code that is likely to import them. A Python with both takes 0.4 ms a call more."""
ADDRESS = re.compile(r" at 0x[0-9a-f]{6,}")


def ready_for(code: str, contained: bool) -> Box:
    """Return the box whose Python has imported what code names."""
    named = tuple(name for name, words in SCIENCE.items() if words.search(code))
    return box(RUNNER, contained=contained, preload=named)


@cache
def turns(processes: int) -> BoundedSemaphore:
    """Bound the calls that run at once."""
    return BoundedSemaphore(processes)


def run_snippet(python: Python, code: str) -> Result:
    """Run code whose last expression is printed, as in a notebook."""
    from rlx.tool.python import printable
    from rlx.tool.tool import Result

    told = run(python, code, {"ends": "value"})
    return told if told.failed else Result(output=printable(told.output.rstrip("\n")) or "None")


def run_program(python: Python, code: str, stdin: str) -> Result:
    """Run a program that reads its standard input."""
    return run(python, code, {"stdin": stdin})


def run_call(python: Python, code: str, expression: str) -> Result:
    """Evaluate an expression after a program, whose own output does not count."""
    return run(python, code, {"expression": expression})


def run(python: Python, code: str, asked: dict[str, Any]) -> Result:
    """Run code in a process of its own. Total, whatever the code is."""
    from rlx.tool.python import too_late, too_long
    from rlx.tool.tool import Result

    if len(code) > python.max_characters:
        return Result(output=f"LengthError: the code is longer than {python.max_characters} characters", failed=True)
    sandbox = ready_for(code, python.contained)
    limits = Limits(memory_mb=python.memory_mb, cpu_seconds=python.seconds)
    asked = {
        **asked,
        "code": code,
        "seconds": python.seconds,
        "most": python.max_output,
        "supply": python.supply_imports,
    }
    with turns(python.processes):
        try:
            return read(python, sandbox.ask(asked, clock_limit(python.seconds), limits))
        except SpentError:
            return Result(output=too_long(python), failed=True)
        except LateError:
            return too_late(python)
        except ChildError as error:
            return Result(output=f"CrashError: {error}", failed=True)
        except StartError as error:
            return Result(output=f"StartError: {error}", failed=True)


def read(python: Python, told: Any) -> Result:
    """Read a runner's answer, which the code may have forged: it then says what the code could have printed."""
    from rlx.tool.python import MAX_ERROR_CHARACTERS, cut, printable
    from rlx.tool.tool import Result

    if not isinstance(told, dict) or not isinstance(told.get("output"), str):
        return Result(output="CrashError: the code stopped its interpreter", failed=True)
    output, error = ADDRESS.sub("", told["output"]), told.get("error")
    if error is not None:
        if told.get("memory") is True:
            error = f"MemoryError: the code used more than {python.memory_mb} MB"
        line = printable(" ".join(str(error).split()))[:MAX_ERROR_CHARACTERS]
        shown = printable(output.strip("\n"))[: python.max_output]
        return Result(output=f"{shown}\n{line}" if shown and told.get("partial") is True else line, failed=True)
    return cut(output, python) if len(output) > python.max_output else Result(output=output)
