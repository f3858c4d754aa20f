from __future__ import annotations

import os
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from rlx.tool.python import Python, Result, pool

PYTHON = Python(seconds=0.3, memory_mb=16, depth=100, max_characters=500)


@pytest.mark.parametrize(
    ("code", "output"),
    [
        ("((44 - 35) * 19)", "171"),
        ("19 / 35", "0.5428571428571428"),
        ("6 / 2", "3.0"),
        ("x = 40\nx + 2", "42"),
        ("print(3)\n4", "3\n4"),
        ("print('a', 1)", "a 1"),
        ("x = 1", "None"),
        ("'text'", "text"),
        ("[1, ('a',), {2: [3.5]}, {True}, []]", "[1, ('a',), {2: [3.5]}, {True}, []]"),
        ("(1, 2)", "(1, 2)"),
        ("  7  ", "7"),
        ("print('\\x1b[31mred\\x07')", "[31mred"),
        ("class A:\n    pass\nA()", "<MontyClassProxy>"),
    ],
)
def test_output_is_what_was_printed_and_the_value(code: str, output: str) -> None:
    assert PYTHON.run(code) == Result(output=output)


@pytest.mark.parametrize(
    ("code", "error"),
    [
        ("", "EmptyError: there is no code to run"),
        (" \n ", "EmptyError: there is no code to run"),
        ("1" * 501, "LengthError: the code is longer than 500 characters"),
        ("1 / 0", "ZeroDivisionError: division by zero"),
        ("1 +", "SyntaxError: Expected an expression"),
        ("while True: pass", "TimeoutError: the code ran longer than 0.3 s"),
        ("10**10**10", "MemoryError: the code used more than 16 MB"),
        ("[0] * 10**9", "MemoryError: the code used more than 16 MB"),
        ("def f(n): return f(n + 1)\nf(0)", "RecursionError: calls were nested deeper than 100"),
        ("import time\ntime.sleep(5)", "SleepError: the code slept longer than 0 s"),
        ("print('a' * 501)", "OutputError: the output is longer than 500 characters"),
        ("'a' * 10**6", "OutputError: the output is longer than 500 characters"),
        ("for i in range(10**9): print(i)", "OutputError: the output is longer than 500 characters"),
        ("x = [1]\nfor i in range(60): x = [x, x]\nx", "OutputError: the output is longer than 500 characters"),
        ("2**20000", "ValueError: the value cannot be shown (ValueError)"),
        ("raise ValueError('a\\nb\\x1b')", "ValueError: a b"),
        ("open('/etc/passwd').read()", "PermissionError: Permission denied: '/etc/passwd'"),
        ("import socket", "ModuleNotFoundError: No module named 'socket'"),
        ("__import__('os')", "NameError: name '__import__' is not defined"),
    ],
)
def test_each_failure_is_one_line_of_its_own(code: str, error: str) -> None:
    assert PYTHON.run(code) == Result(output=error, failed=True)


@pytest.mark.parametrize(
    "code",
    [
        "\x00",
        "\ud800",
        "é",
        "(" * 300,
        "((" * 200 + "1",
        "[" * 500,
        "1e999",
        "lambda: 1",
        "input()",
        "eval('(' * 10**5)",
        "raise SystemExit(3)",
        "import subprocess",
        "import os\nos.system('ls')",
        "import os\nos.environ['PATH']",
        "import os\nos.listdir('/')",
        "l = []\nl.append(l)\nl",
        "x = []\nfor i in range(10**4): x = [x]\nx",
        "x = [1]\nfor i in range(40): x = [x, x]\nstr(x)",
    ],
)
def test_hostile_code_gives_a_result_and_the_next_call_works(code: str) -> None:
    result = PYTHON.run(code)
    assert isinstance(result, Result)
    assert "\n" not in result.output
    assert PYTHON.run("1 + 1") == Result(output="2")


@pytest.mark.parametrize("code", ["import random\nrandom.random()", "import time\ntime.time()", "{'a', 'b', 'c'}"])
def test_clock_and_random_numbers_are_frozen(code: str) -> None:
    assert PYTHON.run(code) == PYTHON.run(code)


def test_calls_share_no_state() -> None:
    PYTHON.run("x = 1")
    assert PYTHON.run("x").failed


def test_threads_get_the_answers_to_their_own_code() -> None:
    with ThreadPoolExecutor(8) as threads:
        results = list(threads.map(PYTHON.run, (f"{index} * 3" for index in range(400))))
    assert [result.output for result in results] == [str(index * 3) for index in range(400)]


def test_other_threads_run_while_a_call_does() -> None:
    slow = threading.Thread(target=PYTHON.run, args=("while True: pass",))
    slow.start()
    num_fast = 0
    while slow.is_alive():
        num_fast += PYTHON.run("1").output == "1"
    assert num_fast >= 2  # one could start before, and end after, a call that held the interpreter


def test_first_calls_of_several_threads_start_one_pool() -> None:
    pool.cache_clear()
    with ThreadPoolExecutor(8) as threads:
        list(threads.map(PYTHON.run, ["1"] * 16))
    assert pool.cache_info().misses == 1
    assert pool(os.getpid(), PYTHON.processes) is pool(os.getpid(), PYTHON.processes)


@pytest.mark.parametrize("key", ["seconds", "memory_mb", "depth", "max_characters", "processes"])
def test_limits_must_be_positive(key: str) -> None:
    with pytest.raises(ValueError, match="every limit must be positive"):
        Python(**{key: 0})
