"""Whole programs: what they print for what they read, values of calls after them, and an end to every one."""

from __future__ import annotations

from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from rlx.tool.program import run_calls, run_programs, with_sys
from rlx.tool.python import Python
from rlx.tool.tool import Result
from tests.loops import for_each

TOOL = Python(seconds=0.5, memory_mb=64, max_characters=5000)


def prints(code: str, stdin: str = "") -> Result:
    [result] = run_programs(TOOL, code, [stdin])
    return result


@for_each(
    "code, stdin, output",
    [
        ("a = int(input())\nb = int(input('?'))\nprint(3 * a + b)", "3\n4\n", "13\n"),
        ("import sys\nfor line in sys.stdin:\n    print(line.strip()[::-1])", "ab\ncd", "ba\ndc\n"),
        ("import sys\ninput = sys.stdin.readline\nprint(input().strip())", " x \n", "x\n"),
        ("from sys import stdin, exit\nprint(sum(map(int, stdin.read().split())))\nexit(0)\nprint(5)", "1 2\n3", "6\n"),
        ("import sys\nsys.setrecursionlimit(10**6)\nsys.stdout.write('hi')\nsys.exit()\nprint(1)", "", "hi"),
        ("print('sys.stdin')  # sys.stdin\n5", "", "sys.stdin\n"),
        ("def main():\n    return 7\nmain()", "", ""),
        ("def main():\n    print(len(input()))\nif __name__ == '__main__':\n    main()", "\u00e9\u4e2d\n", "2\n"),
        ("try:\n    input()\nexcept EOFError:\n    print('end')", "", "end\n"),
        ("print(input() + '|' + input())", "a\r\n\nb", "a|\n"),
        ("x = 1\r\nprint(x)\r\n", "", "1\n"),
        ("x = []\nx.append(x)\nx", "", ""),
        ("", "", ""),
    ],
)
def test_a_program_reads_and_prints(code: str, stdin: str, output: str) -> None:
    assert prints(code, stdin).output.replace("\r", "") == output
    assert not prints(code, stdin).failed


@for_each(
    "code, why",
    [
        ("while True: pass", "TimeoutError"),
        ("x = [0] * 10**9", "MemoryError"),
        ("def f(): return f()\nf()", "RecursionError"),
        ("print('a' * 6000)", "OutputError"),
        ("x" * 6000, "LengthError"),
        ("open('/etc/passwd')", "PermissionError"),
        ("import subprocess", "ModuleNotFoundError"),
        ("__import__('os').system('id')", "NameError"),
        ('x = """', "SyntaxError"),
        ("print(1", "SyntaxError"),
        ("print(input())", "IndexError: EOF"),
        ("raise SystemError", "NameError"),
    ],
)
def test_a_program_that_fails_says_why(code: str, why: str) -> None:
    result = prints(code)
    assert result.failed
    assert result.output.startswith(why)


def test_values_of_calls_are_asked_of_a_program_run_afresh() -> None:
    code = "seen = []\ndef f(x):\n    seen.append(x)\n    print('noise')\n    return seen"
    results = [result.output for result in run_calls(TOOL, code, ["repr(f(1))", "repr(f('a'))", "1 == 1"])]
    assert results == ["[1]", "['a']", "True"]


@for_each("code", ["if False: \\", "def f(x): return 3 \\", "f = 3 #", "x = (", "import sys\nsys.exit()"])
def test_no_end_of_a_program_swallows_the_call(code: str) -> None:
    [result] = run_calls(TOOL, code, ["repr(g(2))"])
    assert result.failed


def test_names_of_sys_are_replaced_in_code_alone() -> None:
    assert with_sys("a.sys.stdin") == "a.sys.stdin"
    assert with_sys("s = 'sys.exit()' # sys.exit\nsys.exit()") == "s = 'sys.exit()' # sys.exit\nsys_exit()"
    assert with_sys("  from sys import stdin, maxsize") == "  stdin = sys_stdin; from sys import maxsize"


@settings(max_examples=60)
@given(st.text(max_size=60), st.text(max_size=30))
def test_any_text_is_a_program_that_ends(code: str, stdin: str) -> None:
    assert isinstance(prints(code, stdin), Result)
    assert not Path("/tmp/rlx-was-here").exists()
