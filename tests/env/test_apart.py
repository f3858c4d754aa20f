"""Code in a process of its own: answers in order, an end to what hangs, dies or raises, and no way out."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from rlx.env.apart import Apart, ApartError, StartError

CHILD = """
import os, sys, time
from rlx.env.apart import serve
counts = [0]
def answer(asked):
    counts[0] += 1
    match asked:
        case "count": return counts[0]
        case "hang": time.sleep(600)
        case "spin":
            while True: pass
        case "die": os._exit(3)
        case "print": print("noise" * 100_000)
        case {"eval": text}: return repr(eval(text))
    return asked
serve(answer)
"""
Start = Callable[[], Apart]


@pytest.fixture
def child(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Apart]:
    (tmp_path / "a_child.py").write_text(CHILD)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", ""), os.getcwd()]))
    child = Apart("a_child")
    yield child
    child.end()


def test_answers_come_in_order_whatever_is_printed_and_from_any_thread(child: Apart) -> None:
    assert child.ask("print", 20) == "print"
    assert child.ask({"a": ["\ud800", "\x00", "\n"]}, 20) == {"a": ["\ud800", "\x00", "\n"]}
    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(lambda number: child.ask(number, 20), range(40))) == list(range(40))


@pytest.mark.parametrize("what", ["hang", "spin", "die"])
def test_what_hangs_or_dies_is_told_and_the_next_is_answered(child: Apart, what: str) -> None:
    assert child.ask("count", 20) == 1
    with pytest.raises(ApartError, match=r"took longer than 0.2 s|ended"):
        child.ask(what, 0.2 if what != "die" else 20)
    assert child.ask("count", 20) == 1


def test_an_exception_is_an_answer_and_the_process_lives(child: Apart) -> None:
    with pytest.raises(ApartError, match=r"^ZeroDivisionError: division by zero$"):
        child.ask({"eval": "1/0"}, 20)
    assert child.ask("count", 20) == 2


@pytest.mark.parametrize(
    "escape",
    [
        "open({path!r}, 'w')",
        "__import__('os').system('touch ' + {path!r})",
        "__import__('os').mkdir({path!r})",
        "__import__('os').posix_spawn('/bin/touch', ['touch', {path!r}], dict())",
        "__import__('os').fork()",
        "__import__('subprocess').run(['touch', {path!r}])",
        "__import__('socket').socket().connect(('127.0.0.1', 80))",
        "__import__('ctypes').CDLL(None)",
        "__import__('pathlib').Path({path!r}).touch()",
        "__import__('shutil').rmtree({path!r})",
        "bytearray(10**11)",
    ],
)
def test_nothing_gets_out(child: Apart, tmp_path: Path, escape: str) -> None:
    path = tmp_path / "escaped"
    with pytest.raises(ApartError, match=r"PermissionError|MemoryError|AttributeError"):
        child.ask({"eval": escape.format(path=str(path))}, 20)
    assert not path.exists()
    assert child.ask("count", 20) == 2


def test_a_module_that_does_not_start_is_told(child: Apart) -> None:
    with pytest.raises(StartError, match="no_such_module ended as it started"):
        Apart("no_such_module").ask("count", 20)
