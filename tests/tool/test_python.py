from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from rlx.tool.python import Python, pool
from rlx.tool.tool import Result
from tests.errors import raises_naming
from tests.loops import for_each

PYTHON = Python(seconds=0.3, memory_mb=16, depth=100, max_characters=500)


@for_each(
    "code, output",
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
        ("x = 3; x", "3"),
        ("{'e', 'd', 'c', 'b', 'a'}", "{'e', 'd', 'c', 'b', 'a'}"),
        ("class A:\n    def __repr__(self): return 'A!'\n[{A()}]", "[{A!}]"),
        ("import dataclasses\n@dataclasses.dataclass\nclass P:\n    x: int\nP(1)", "P(x=1)"),
        ("l = []\nl.append(l)\nl", "[[[...]]]"),
        ("x = []\nfor i in range(90): x = [x]\nx", "[" * 91 + "]" * 91),
        ("print = 3\nprint", "3"),
        ("d = {'a;b': 1}\nf'{d['a;b']}'", "1"),
    ],
)
def test_output_is_what_was_printed_and_the_value(code: str, output: str) -> None:
    assert PYTHON.run(code) == Result(output=output)


@for_each(
    "code, error",
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
        ("x = list(range(10**5))\nx", "OutputError: the output is longer than 500 characters"),
        ("return 5", "ValueError: the last value cannot be shown; print it"),
        ("raise ValueError('a\\nb\\x1b')", "ValueError: a b"),
        ("open('/etc/passwd').read()", "PermissionError: Permission denied: '/etc/passwd'"),
        ("import socket", "ModuleNotFoundError: No module named 'socket'"),
        ("__import__('os')", "NameError: name '__import__' is not defined"),
    ],
)
def test_each_failure_is_one_line_of_its_own(code: str, error: str) -> None:
    assert PYTHON.run(code) == Result(output=error, failed=True)


@for_each(
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


WAYS = [
    "import random\n(random.random(), random.Random().random(), random.sample('abcdef', 6))",
    "import time\n(time.time(), time.localtime(), time.perf_counter(), time.process_time())",
    "import datetime\n(datetime.datetime.now(), datetime.date.today(), datetime.datetime.now().astimezone())",
    "import os\n(os.getcwd(), os.name)",
    "import os\nos.environ['HOME']",
    "import sys\n(sys.version, sys.platform, sys.argv)",
    "class A:\n    pass\n(id(A()), id('abc'), A(), hash(A()), hash('abc'), hash((1, None, b'a')), hash(1.5))",
    "def f(): pass\n[f, lambda: 1, iter([]), len, A] if 0 else [f, lambda: 1, iter([]), len]",
    "{'a', 'b', 3, None, (1, 'c'), 2.5, frozenset({'x', 'y'})}",
    "frozenset('qwertyuiop')",
    "[{'a': set('hgfedc')}, ({'x', 'y', 'z'},)]",
    "print({'b', 'a', 'c'}, set('zyxw') | {1})",
    "f\"{set('abcdef')} {frozenset('abc')!r}\"",
    "s = set('abcdef')\ns.discard('b')\ns.add('g')\n(s.pop(), list(s), min(s, key=len), dict.fromkeys(s))",
    "raise KeyError(str(set('abcdef')))",
    "{}[frozenset('abcdef')]",
    "assert set('abc') == set('xyz')",
    "class A:\n    pass\n{A(), A(), 1, 'a'}",
    "1e22, 0.1 + 0.2, 5e-324, float('nan'), -0.0, 1e16, 123456789.123456789",
    "2**20000",
    "import json\njson.dumps({str(key): 1 for key in set('qwerty')})",
]
TELL = """
import json, sys
from rlx.tool.python import Python
for code in json.load(sys.stdin):
    print(json.dumps(Python(seconds=9, memory_mb=8).run(code).output))
"""


def new_process(codes: list[str], **environment: str) -> subprocess.CompletedProcess[str]:
    """What a process of its own says to each."""
    variables = os.environ | environment
    command = [sys.executable, "-c", TELL]
    return subprocess.run(command, input=json.dumps(codes), env=variables, capture_output=True, text=True, check=True)


def told(codes: list[str], **environment: str) -> dict[str, str]:
    lines = new_process(codes, **environment).stdout.splitlines()
    return {code: json.loads(line) for code, line in zip(codes, lines, strict=True)}


def test_every_process_gives_the_same_text() -> None:
    first = told(WAYS, PYTHONHASHSEED="1")
    second = told(WAYS[::-1], PYTHONHASHSEED="7", TZ="Asia/Tokyo", HOME="/", LANG="C", PYTHONINTMAXSTRDIGITS="0")
    assert first == second
    assert not any("cannot be shown" in text for text in first.values())


def is_between(value: float) -> bool:
    """Tell whether two shortest texts are equally near: Python writes the even digit, monty the larger one."""
    exact, text = Decimal(value), Decimal(repr(value))
    return exact.is_finite() and abs(exact - text) * 2 == Decimal(1).scaleb(int(text.as_tuple().exponent))


@given(value=st.floats() | st.integers(-(10**40), 10**40) | st.complex_numbers())
@settings(max_examples=300)
def test_a_number_is_written_as_python_writes_it(value: complex) -> None:
    parts = (value.real, value.imag) if isinstance(value, complex) else (value,)
    assume(not any(isinstance(part, float) and is_between(part) for part in parts))
    given = f"float('{value}')" if isinstance(value, float) else f"complex('{value}')"
    code = str(value) if isinstance(value, int) else given
    assert PYTHON.run(code).output == str(value)


def test_printing_past_the_limit_ends_the_call() -> None:
    patient = Python(seconds=100, max_characters=50)
    for code in ("while True: print('a')", "print('a' * 60)\nwhile True: pass", "while True: print('a' * 9, end='')"):
        assert patient.run(code) == Result(output="OutputError: the output is longer than 50 characters", failed=True)
    assert patient.run("print('a' * 50)") == Result(output="a" * 50)


def test_an_operation_that_looks_at_no_clock_is_ended_soon_after_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    waits = []
    monkeypatch.setattr("rlx.tool.python.Monty", lambda **given: waits.append(given["feed_duration_limit_grace"]))
    with pytest.raises(TypeError):
        pool.__wrapped__(0, 1, "programs")
    assert waits == [pytest.approx(0.1)]
    assert PYTHON.run("int('7' * 400)**9000 % 3").output == "TimeoutError: the code ran longer than 0.3 s"


def test_workers_write_nothing_to_stderr() -> None:
    done = new_process(["x = [1]\nfor i in range(60): x = [x, x]\nstr(x)"])
    assert (json.loads(done.stdout), done.stderr) == ("MemoryError: the code used more than 8 MB", "")


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
    first, again = (pool(os.getpid(), PYTHON.processes, "programs") for _ in range(2))
    assert first is again


@for_each("key", ["seconds", "memory_mb", "depth", "max_characters", "processes"])
def test_limits_must_be_positive(key: str) -> None:
    with raises_naming(ValueError, f"{key}=0"):
        Python(**{key: 0})
