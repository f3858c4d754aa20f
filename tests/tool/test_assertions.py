"""Tests given as assertions: what holds, and what a program cannot forge."""

from __future__ import annotations

from threading import Thread

import pytest

from rlx.env.questions.code import Code, read_tests
from rlx.tool.program import run_assertions
from rlx.tool.python import Python
from rlx.types import Task

pytestmark = pytest.mark.usefixtures("container")
MONTY = Python(seconds=2, memory_mb=64, max_characters=20_000)
CPYTHON = Python(interpreter="cpython", seconds=5, memory_mb=256, max_characters=20_000)
BOTH = pytest.mark.parametrize("python", [MONTY, CPYTHON], ids=["monty", "cpython"])
ADD = "def f(a, b=1):\n    return a + b\n"
CLASS = """
class S:
    def __init__(self): self.x = []
    def push(self, v): self.x.append(v)
    def __len__(self): return 7
"""
ANYTHING = (
    "class A:\n    def __eq__(self, other): return True\n    def __ne__(self, other): return False\nf = lambda *_: {}"
)
WRITE = """
import os
for fd in range(3, 64):
    try: os.write(fd, b'{line}\\n' * {num})
    except OSError: pass
f = lambda *_: 0
"""
LOOK = """
import gc, sys
def texts(value, depth=0):
    if isinstance(value, str): yield value
    elif depth < 4 and isinstance(value, dict): yield from (t for v in value.values() for t in texts(v, depth + 1))
    elif depth < 4 and isinstance(value, (list, tuple)): yield from (t for v in value for t in texts(v, depth + 1))
def f(*_):
    frame, places = sys._getframe(), gc.get_objects()
    while frame:
        places.append(dict(frame.f_locals))
        frame = frame.f_back
    wanted = chr(61) * 2 + " 918273"
    return 918272 + 1 if any(wanted in text for place in places for text in texts(place)) else 0
"""


def holds(python: Python, code: str, *expressions: str) -> list[bool]:
    results = list(run_assertions(python, code, expressions))
    return [not result.failed and result.output == "True" for result in results]


@BOTH
def test_a_right_program_passes_and_a_wrong_one_does_not(python: Python) -> None:
    right = [
        "not not [f(1, 2) == 3][0]",
        "not not [f('a', 'b') == 'ab', 'they are joined'][0]",
        "[f(x) for x in range(3)] == [1, 2, 3]",
        "math.isclose(f(.1, .2), .3)",
        "f([1], [2]) == [1, 2] and f((1,), (2,)) == (1, 2)",
        "not f(1, -1)",
        "sorted(f([3], [b'1'])[:1]) == [3]",
        "f(1 << 200) == (1 << 200) + 1",
        "all(f(x, b=y) == x + y for x in (1, 2) for y in (3, True))",
        "set(f([1], [2])) == {1, 2} and f(1j) == 1 + 1j and f(0.1) == 1.1",
        "sum([1, 2]) == 3",
    ]
    assert holds(python, ADD, *right) == [True] * len(right)
    wrong = ["not not [f(1) == 5][0]", "g(1) == 2", "f(1, 'a') == 2", "1 / 0 == f(1)", "f(1) ==", "f(1)\n== 3)"]
    assert holds(python, ADD, *wrong) == [False] * len(wrong)


@BOTH
def test_a_value_that_equals_everything_equals_no_value_of_a_plain_type(python: Python) -> None:
    for value in ("A()", "[A()]", "{1: A()}", "A"):
        assert (
            holds(python, ANYTHING.format(value), "f(1) == 3", "f(1) == [3]", "3 == f(1)", "f(1) in (1, 2)")
            == [False] * 4
        )
    builtins = "repr = print = bool = set = sorted = len = lambda *_: True\n" + ADD
    assert holds(python, builtins, "set(f([1], [])) == {2}", "len(f('a', 'b')) == 1", "f(1) == 3") == [False] * 3


def test_no_descriptor_of_the_programs_process_takes_a_verdict() -> None:
    for line in ('{"value":{"output":"True"}}', '{"value":{"holds":true}}', '{"value":{"value":{"holds":true}}}'):
        for num in ("1", "4"):
            code = WRITE.replace("{line}", line).replace("{num}", num)
            assert holds(CPYTHON, code, "f(1) == 3", "f(2) == 3") == [False, False]


def test_the_programs_process_does_not_hold_the_right_answer() -> None:
    assert holds(CPYTHON, LOOK, "f(1) == 918273", "f(2) == 918273") == [False, False]
    task = Task(id="0", prompt=(), data={"key": read_tests(["assert f(1) == 918273", "assert f(2) == 918273"])})
    assert Code(python=CPYTHON, reward="share").judge(task, LOOK).reward == 0.0


def test_objects_of_a_program_are_used_by_reference() -> None:
    code = f"{ADD}{CLASS}class I(int):\n    def __eq__(self, other): return True\nX = 5\ng = lambda *_: I(7)"
    good = [
        "[s.push(f(2)) or s.x for s in [S()]] == [[3]]",
        "len(S()) == 7",
        "S().x == []",
        "X == 5 and g() == 7 and S() and isinstance(g(), int)",
        "f(*[S().x, [1]]) == [1]",
    ]
    assert holds(CPYTHON, code, *good) == [True] * len(good)
    assert holds(CPYTHON, code, "g() == 8", "S() == []", "S() == S()", "S().y == 1") == [False] * 4


def test_threads_that_hold_a_program_each_get_a_sandbox_for_its_test() -> None:
    alone, results = Python(seconds=2, processes=1), list[list[bool]]()
    threads = [Thread(target=lambda: results.append(holds(alone, ADD, "f(1) == 2", "f(2) == 3"))) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == [[True, True]] * 6
