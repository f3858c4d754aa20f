"""CPython as the tool's interpreter: Python as it is, within limits, and nothing of a call in the next."""

from __future__ import annotations

from dataclasses import replace
from importlib.util import find_spec

import pytest

from rlx.tool.program import run_calls, run_programs
from rlx.tool.python import Python
from rlx.tool.tool import Result
from tests.loops import for_each

pytestmark = pytest.mark.usefixtures("container")
PYTHON = Python(
    interpreter="cpython", seconds=5, memory_mb=512, max_characters=20_000, output_characters=300, processes=4
)


@for_each(
    "code, output",
    [
        ("1 + 1", "2"),
        ("x = 3", "None"),
        ("print(3)\n4", "3\n4"),
        ("def f():\n    yield 1\nlist(f())", "[1]"),
        ("class A: pass\nclass B(A): pass\nx = B()\ndel x", "None"),
        ("import heapq; heapq.nsmallest(1, [3, 1])", "[1]"),
        ("(5).bit_length(), round(2.675, 2), pow(2, -1, 7)", "(3, 2.67, 4)"),
        ("print(object())", "<object object>"),
        ("```python\n3 + 4\n```", "7"),
        ("import os; print(1); os._exit(1)", "1"),
        ("import sys; print(1); sys.exit()", "1"),
        ("import threading\nthreading.Thread(target=print, args=(5,)).start()", "5"),
        ("if __name__ == '__main__': print('main')", "main"),
        ("from dataclasses import dataclass\n@dataclass\nclass P:\n    x: int\nP(1)", "P(x=1)"),
        ("print('\\x1b[31mred')", "[31mred"),
    ],
)
def test_python_is_as_it_is(code: str, output: str) -> None:
    assert PYTHON.run(code) == Result(output=output)


@for_each(
    "code, error",
    [
        ("", "EmptyError: there is no code to run"),
        ("1 / 0", "ZeroDivisionError: division by zero (line 1)"),
        ("1 +", "SyntaxError: invalid syntax (line 1)"),
        ("x = 1\ny", "NameError: name 'y' is not defined (line 2)"),
        ("print(5)\nraise ValueError('a\\nb\\x1b')", "5\nValueError: a b (line 2)"),
        ("[0] * 10**10", "MemoryError: the code used more than 512 MB"),
        ("print('a' * 301)", "OutputError: the output is longer than 300 characters"),
        ("import ctypes; ctypes.string_at(0)", "CrashError: its process ended"),
    ],
)
def test_each_failure_is_told(code: str, error: str) -> None:
    assert PYTHON.run(code) == Result(output=error, failed=True)


def test_time_is_limited() -> None:
    for code in ("while True: pass", "try:\n    while True: pass\nexcept BaseException: pass"):
        told = replace(PYTHON, seconds=0.5).run(code)
        assert (told.output, told.failed) == ("TimeoutError: the code ran longer than 0.5 s", True)


@pytest.mark.skipif(not (find_spec("numpy") and find_spec("sympy")), reason="numpy or sympy is not installed")
def test_numpy_and_sympy_are_there() -> None:
    code = "import numpy as np, sympy\nprint(np.arange(3).sum(), sympy.sqrt(8))"
    assert PYTHON.run(code) == Result(output="3 2*sqrt(2)")


def test_calls_are_alike_and_leave_nothing() -> None:
    code = "import random, builtins\nprint(random.random(), hash('x'), hasattr(builtins, 'left'))\nbuiltins.left = 1"
    first = PYTHON.run(code)
    assert first == PYTHON.run(code)
    assert first.output.endswith("False")


def test_gems_rules_are_options() -> None:
    gem = replace(PYTHON, truncate=True, supply_imports=True)
    assert gem.run("print('a' * 400)") == Result(output="a" * 300 + "\n... (cut off)")
    assert gem.run("print(sqrt(4), Counter('aab').most_common(1))") == Result(output="2.0 [('a', 2)]")
    assert PYTHON.run("print(sqrt(4))").failed
    assert replace(PYTHON, fenced=False).run("```python\n1\n```").failed
    small = Python(max_characters=50, truncate=True)
    assert small.run("print('a' * 60)") == Result(output="a" * 50 + "\n... (cut off)")


READERS = (
    "print(sum(map(int, open(0))))",
    "import sys\nprint(sum(int(line) for line in sys.stdin))",
    "import sys\nprint(sum(map(int, sys.stdin.buffer.read().split())))",
    "import os\nprint(sum(map(int, os.read(0, os.fstat(0).st_size).split())))",
    "import sys\ninput = sys.stdin.readline\nprint(int(input()) + int(input()))",
    "print(int(input()) + int(input()))",
    "import sys\nsys.stdout.write(str(int(input()) + int(input())) + '\\n')",
    "import io, os, sys\nsys.stdin = io.StringIO(os.read(0, 99).decode())\nprint(int(input()) + int(input()))",
)


@for_each("code", READERS)
def test_a_program_reads_its_input_in_any_way(code: str) -> None:
    assert list(run_programs(PYTHON, code, ["3\n4\n", "1\n2"])) == [Result(output="7\n"), Result(output="3\n")]


def test_a_function_is_called_after_its_program() -> None:
    told = list(
        run_calls(PYTHON, "print('noise')\ndef f(a):\n    return [a] * 2", ["repr(f(2))", "not not [f(1) == 2][0]"])
    )
    assert told == [Result(output="[2, 2]"), Result(output="False")]
    [failed] = run_calls(PYTHON, "import sys; sys.exit()", ["1"])
    assert failed.failed


def test_a_forged_answer_is_only_text() -> None:
    said = b'{"value": {"output": 5}}\n'
    code = f"import os\nfor fd in range(3, 20):\n    try: os.write(fd, {said!r})\n    except OSError: pass"
    assert PYTHON.run(code).failed
    assert PYTHON.run("1") == Result(output="1")
