"""Python code of a model in CPython, contained by the kernel (rlx.tool.contain).

Each call has a fresh process, forked from a Python that has imported likely modules. So no call sees another.

    code --names numpy, sympy ...?--> [a Python that has imported those]  or  [plain: the standard library]

Random numbers begin with the same seed in every call, hashes are fixed, and addresses in the output are removed; clocks
are not frozen, so code that prints a time prints another one next time.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache
from pathlib import Path
from threading import BoundedSemaphore
from typing import TYPE_CHECKING, Any

from rlx.tool.contain.box import Box, Limits, box
from rlx.tool.contain.process import ChildError, LateError, SpentError, StartError
from rlx.tool.processor import clock_limit
from rlx.tool.tool import Result

if TYPE_CHECKING:
    from rlx.tool.python import Python

RUNNER = str(Path(__file__).with_name("cpython_runner.py"))
VALUES = str(Path(__file__).with_name("cpython_values.py"))
SCIENCE = {
    "numpy": re.compile(r"\b(?:numpy|scipy|pandas|np)\b"),
    "sympy": re.compile(r"\b(?:sympy|mpmath|sp)\b"),
}
"""Modules, and the words of code that is likely to import them. A Python with both takes 0.4 ms a call more."""
MOST_ANSWERS = 1000
"""Values of a program that one test may ask for."""
INSIDE = Result(output="")
"""Sign that only the program's process can evaluate a test."""
ADDRESS = re.compile(r" at 0x[0-9a-f]{6,}")


def ready_for(code: str, contained: bool) -> Box:
    """Return the box whose Python has imported what code names."""
    named = tuple(name for name, words in SCIENCE.items() if words.search(code))
    return box(RUNNER, contained=contained, preload=named, readable=(VALUES,))


@cache
def turns(processes: int) -> BoundedSemaphore:
    """Bound the calls that run at once."""
    return BoundedSemaphore(processes)


def run_snippet(python: Python, code: str) -> Result:
    """Run code whose last expression is printed, as in a notebook."""
    from rlx.tool.python import printable

    result = run(python, code, {"ends": "value"})
    return result if result.failed else Result(output=printable(result.output.rstrip("\n")) or "None")


def run_program(python: Python, code: str, stdin: str) -> Result:
    """Run a program that reads its standard input."""
    return run(python, code, {"stdin": stdin})


def run_call(python: Python, code: str, expression: str) -> Result:
    """Evaluate an expression after a program, whose own output does not count."""
    return run(python, code, {"expression": expression})


def run_assertion(python: Python, code: str, expression: str) -> Result:
    """Evaluate an expression that must hold after a program.

    The program's process answers for values of the program's names. The test is evaluated in another process, forked
    from a Python that never runs programs, on copies of those values that are of plain types.
    """
    request, limits = ask_of(python, code, {"serves": True}), limits_of(python)

    def work(seconds: float) -> Result:
        with (
            ready_for(code, python.contained).begin(request, limits) as program,
            examiners(python.contained).begin({"examine": "0", "answers": []}, limits) as examiner,
        ):
            begun = read(python, program.hear(seconds).get("value"))
            examiner.hear(seconds)
            if begun.failed:
                return begun
            answers: list[Any] = []
            while len(answers) < MOST_ANSWERS:
                verdict = examiner.ask({"examine": expression, "answers": answers}, seconds)["value"]
                if "request" not in verdict:
                    return verdict_of(verdict)
                answers.append(answer_of(program.ask({"serve": verdict["request"]}, seconds).get("value")))
            return Result(output=f"CallError: the test needs more than {MOST_ANSWERS} values", failed=True)

    result = guarded(python, code, work)
    return run_call(python, code, expression) if result is INSIDE else result


def answer_of(value: Any) -> dict[str, Any]:
    """Validate the answer of a program's process, which the program may have forged: a value, or an error."""
    good = isinstance(value, dict) and ("value" in value or isinstance(value.get("error"), str))
    return value if good else {"error": "CrashError: the code stopped its interpreter"}


def verdict_of(verdict: dict[str, Any]) -> Result:
    """Return the result of an examined test."""
    if "inside" in verdict:
        return INSIDE
    return Result(output=str(verdict.get("holds", verdict.get("error"))), failed="error" in verdict)


def examiners(contained: bool) -> Box:
    """Return the box of a Python that sees tests and no programs."""
    return box(VALUES, contained=contained)


def ask_of(python: Python, code: str, request: dict[str, Any]) -> dict[str, Any]:
    """Return the request to run a program."""
    limits = {"seconds": python.seconds, "most": python.max_output, "supply": python.supply_imports}
    return {**request, **limits, "code": code}


def limits_of(python: Python) -> Limits:
    return Limits(memory_mb=python.memory_mb, cpu_seconds=python.seconds)


def run(python: Python, code: str, request: dict[str, Any]) -> Result:
    """Run code in a process of its own. Total, whatever the code is."""
    sandbox, request = ready_for(code, python.contained), ask_of(python, code, request)
    return guarded(python, code, lambda seconds: read(python, sandbox.ask(request, seconds, limits_of(python))))


def guarded(python: Python, code: str, work: Callable[[float], Result]) -> Result:
    """Return the result of work with contained processes, which is told its limit by the clock; total."""
    from rlx.tool.python import too_late, too_long

    if len(code) > python.max_characters:
        return Result(output=f"LengthError: the code is longer than {python.max_characters} characters", failed=True)
    with turns(python.processes):
        try:
            return work(clock_limit(python.seconds))
        except SpentError:
            return Result(output=too_long(python), failed=True)
        except LateError:
            return too_late(python)
        except ChildError as error:
            return Result(output=f"CrashError: {error}", failed=True)
        except StartError as error:
            return Result(output=f"StartError: {error}", failed=True)


def read(python: Python, answer: Any) -> Result:
    """Read a runner's answer, which the code may have forged: it then says what the code could have printed."""
    from rlx.tool.python import MAX_ERROR_CHARACTERS, cut, printable

    if not isinstance(answer, dict) or not isinstance(answer.get("output"), str):
        return Result(output="CrashError: the code stopped its interpreter", failed=True)
    output, error = ADDRESS.sub("", answer["output"]), answer.get("error")
    if error is not None:
        if answer.get("memory") is True:
            error = f"MemoryError: the code used more than {python.memory_mb} MB"
        line = printable(" ".join(str(error).split()))[:MAX_ERROR_CHARACTERS]
        printed = printable(output.strip("\n"))[: python.max_output]
        return Result(output=f"{printed}\n{line}" if printed and answer.get("partial") is True else line, failed=True)
    return cut(output, python) if len(output) > python.max_output else Result(output=output)
