"""Limits of work are processor time; the clock is the last resort, and its hits are counted."""

from __future__ import annotations

import os
import signal
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from threading import Barrier, Timer

import pytest

from rlx.env.questions.code import Code
from rlx.rollout.measure import measure
from rlx.runs.codec import TOOL
from rlx.tool import cpython, python
from rlx.tool.processor import Watcher, end_watcher, watcher
from rlx.tool.python import Python
from rlx.tool.tool import Result, use_of
from rlx.types import Group, Task, ToolUse
from tests.rollout.test_measure import episode

MONTY = Python(seconds=0.2)
CPYTHON = Python(interpreter="cpython", seconds=0.5, memory_mb=256, max_characters=20_000, processes=4)
WAIT = "import threading\nthreading.Event().wait({})\n"
"""Time by the clock in which a call has no processor, as on a machine that is busy."""


def test_a_sandbox_that_gets_no_processor_for_a_while_is_not_ended() -> None:
    with MONTY.session() as sandbox:
        os.kill(sandbox.worker, signal.SIGSTOP)
        Timer(1.0, os.kill, (sandbox.worker, signal.SIGCONT)).start()
        assert MONTY.feed(sandbox, "1 + 1") == Result(output="2")


@pytest.mark.usefixtures("container")
def test_a_contained_call_that_gets_no_processor_for_a_while_is_not_ended() -> None:
    assert CPYTHON.run(f"{WAIT.format(2.5)}1 + 1") == Result(output="2")


@pytest.mark.usefixtures("container")
def test_the_end_of_a_process_says_what_ended_it_and_not_how_long_it_took() -> None:
    crash = "import ctypes\nctypes.string_at(0)"
    assert CPYTHON.run(WAIT.format(1.0) + crash).output == "CrashError: its process ended"
    spin = "import threading\nfor _ in range(4): threading.Thread(target=lambda: sum(iter(int, 1))).start()"
    for code in (spin, "while True: pass", "try:\n    while True: pass\nfinally: x = 1"):
        assert CPYTHON.run(code) == Result(output="TimeoutError: the code ran longer than 0.5 s", failed=True)


@pytest.mark.usefixtures("container")
def test_sleep_is_limited_by_what_is_asked_for() -> None:
    for code in ("import time\ntime.sleep(100)", "from time import sleep\nfor _ in range(9): sleep(0.1)"):
        assert CPYTHON.run(code) == Result(output="SleepError: the code slept longer than 0.5 s (line 2)", failed=True)
    assert CPYTHON.run("import time\ntime.sleep(0.1)\n3") == Result(output="3")


@pytest.mark.usefixtures("container")
def test_the_last_resort_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (cpython, python):
        monkeypatch.setattr(module, "clock_limit", lambda seconds: 0.3)
    with MONTY.session() as sandbox:
        os.kill(sandbox.worker, signal.SIGSTOP)
        slow = MONTY.feed(sandbox, "1 + 1")
    waits = CPYTHON.run(WAIT.format(100))
    for result in (slow, waits):
        assert result.failed
        assert result.stopped
        assert result.output == "TimeoutError: the code had not ended after 0.3 s by the clock"
        assert use_of(result) == ToolUse(num_calls=1, num_failed=1, num_stopped=1)
    task = Task(id="0", prompt=(), data={"key": {"calls": False, "tests": [["", "1"]]}})
    step = Code(python=CPYTHON, reward="share").judge(task, WAIT.format(100))
    assert (step.reward, step.tool.num_stopped) == (0.0, 1)


def test_the_metric_is_there_where_the_clock_ended_something() -> None:
    tools = [ToolUse(num_calls=1, num_stopped=2), ToolUse(num_calls=1)]
    plain = [episode(place, "a") for place in range(2)]
    turns = [replace(plain[place].turns[0], tool=tool) for place, tool in enumerate(tools)]
    episodes = tuple(replace(one, turns=(turn,)) for one, turn in zip(plain, turns))
    assert measure([Group(task=episodes[0].task, trajectories=episodes)])["tool/stopped"] == 1.0
    assert "tool/stopped" not in measure([Group(task=episodes[0].task, trajectories=episodes[1:])])
    for tool in tools:
        assert TOOL.read(TOOL.write(tool), "tool") == tool
    assert TOOL.write(tools[1]) == [1, 0, 0, 0]


@pytest.mark.usefixtures("container")
def test_threads_of_one_call_take_none_from_its_neighbour() -> None:
    many = replace(CPYTHON, seconds=5.0, memory_mb=8192)
    hold = "import threading\nfor _ in range(500): threading.Thread(target=threading.Event().wait, args=(3,)).start()\n"
    start = WAIT.format(1.5) + "threading.Thread(target=print, args=(5,)).start()"
    with ThreadPoolExecutor(2) as calls:
        full, beside = calls.map(many.run, [hold + "threading.active_count()", start])
    assert beside == Result(output="5")
    assert full == Result(output="501")


@pytest.mark.usefixtures("container")
def test_a_program_has_room_for_the_threads_that_its_memory_allows() -> None:
    code = (
        "import threading\nfor _ in range(24): threading.Thread(target=threading.Event().wait, args=(0.2,)).start()\n"
    )
    assert CPYTHON.run(f"{code}threading.active_count()") == Result(output="25")


def test_threads_whose_first_calls_come_together_share_one_watcher() -> None:
    end_watcher()
    together = Barrier(16)

    def first_call(_: int) -> Watcher:
        together.wait()
        return watcher()

    with ThreadPoolExecutor(16) as threads:
        assert len(set(threads.map(first_call, range(16)))) == 1
    end_watcher()
    assert "processor time" not in {thread.name for thread in threading.enumerate()}
