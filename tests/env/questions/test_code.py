"""Programming problems: tests that solutions pass and others fail, in part where that is paid; forms of data sets."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from random import Random
from typing import Any

import pytest

from rlx.env.hub import DataError
from rlx.env.questions.code import Code, program_in, read_tests
from rlx.env.questions.program_problems import KINDS
from rlx.tool.python import Python
from rlx.tool.tool import Result
from rlx.types import Action, Step, Task
from tests.errors import raises_naming
from tests.loops import for_each

TOOL = Python(seconds=0.5, memory_mb=64, max_characters=20_000)
DOUBLE = {"inputs": ["1\n", "2\n", "30\n", "-4\n"], "outputs": ["2\n", "4", "60 \n\n", "-8"]}


def judge(text: str, cell: Any = DOUBLE, **settings: Any) -> Step:
    task = Task(id="x", prompt=(), data={"key": read_tests(cell), "answer": "", "worked": ""})
    return Code(python=TOOL, **settings).start(task).step(Action(kind="answer", text=text))


@for_each("kind", KINDS)
def test_a_solution_passes_its_tests_and_nothing_else_does(kind: str) -> None:
    for seed in range(8):
        problem = KINDS[kind](Random(seed))
        tests = [[f"repr({given})" if problem.calls else given, right] for given, right in problem.tests]
        task = Task(id="x", prompt=(), data={"key": {"calls": problem.calls, "tests": tests}})
        for text in (problem.solution, f"Here it is:\n```python\n{problem.solution}\n```\nDone."):
            assert Code().start(task).step(Action(kind="answer", text=text)).success
        for text in ("", "pass", "print(1)", "def f(*_): return None", "def f(x): return [x]"):
            assert not Code().start(task).step(Action(kind="answer", text=text)).success


def test_an_example_is_shown_and_does_not_count_for_the_split() -> None:
    seen: dict[str, str] = {}
    for task in islice(Code().tasks("train", 0), 300):
        asked, _, shown = task.prompt[0].text.partition("\nFor example, ")
        assert task.data["key"]["tests"][0][1] in shown
        assert seen.setdefault(asked, task.id) == task.id


@for_each(
    "program, share",
    [
        ("print(2 * int(input()))", 1.0),
        ("n = int(input())\nprint(2 * n if n > 0 else 1)", 0.75),
        ("n = int(input())\nif n > 2: print(60)\nelse: 1 / 0", 0.25),
        ("print(60", 0.0),
        ("while True: pass", 0.0),
    ],
)
def test_part_of_the_tests_may_be_part_of_the_reward(program: str, share: float) -> None:
    assert judge(program, reward="share").reward == share
    assert judge(program).reward == float(share == 1.0)
    assert judge(program, reward="share").success == (share == 1.0)
    assert judge(program, reward="share").metrics == {"tests_passed": share}


def test_the_first_test_that_fails_is_the_last_where_all_must_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    run: list[str] = []

    def run_programs(python: Python, code: str, stdins: Iterable[str]) -> Iterator[Result]:
        for stdin in stdins:
            run.append(stdin)
            yield Result(output="2")

    monkeypatch.setattr("rlx.env.questions.code.run_programs", run_programs)
    assert judge("").metrics == {}
    assert run == ["1\n", "2\n"]
    assert judge("", reward="share").reward == 0.25


def test_of_several_blocks_the_last_is_the_program() -> None:
    assert program_in("```python\n1\n```\nor\n```\n2\n```") == "2"
    assert program_in("print(1)") == "print(1)"


@pytest.mark.parametrize(
    "cell",
    [
        {"fn_name": "f", "inputs": [[1, 2], ["a", "b"]], "outputs": [[3], ["ab"]]},
        json.dumps({"fn_name": "f", "inputs": [[1, 2]], "outputs": [3]}),
        ["assert f(1, 2) == 3", "assert f('a', 'b') == 'ab', 'they are joined'"],
    ],
)
def test_a_function_is_called(cell: Any) -> None:
    assert judge("def f(a, b):\n    return a + b", cell).success
    assert not judge("def f(a, b):\n    return 2", cell).success
    assert not judge("repr = print = bool = lambda *_: 'True'\ndef f(a, b):\n    return 4", cell).success


@pytest.mark.parametrize(
    "cell",
    [{"inputs": [["1", "2"]], "outputs": [["1", "2"]]}, [{"input": "1\n2", "output": "1\n2\n", "type": "stdin"}]],
)
def test_lines_may_be_listed(cell: Any) -> None:
    assert judge("print(input())\nprint(input())", cell).success


@pytest.mark.parametrize(
    "cell", ["", "not json", "[1]", "3", None, {}, {"inputs": ["1"]}, {"inputs": 1, "outputs": 2}, []]
)
def test_what_holds_no_tests_is_refused(cell: Any, tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_text(json.dumps({"question": "?", "tests": cell}) + "\n")
    with raises_naming(DataError, "env.hub=", "row 0", "answer"):
        Code(source="hub", hub=str(path)).check_inputs()


def test_of_many_tests_the_longest_are_run_and_no_expert_is_known(tmp_path: Path) -> None:
    rows = [
        {"problem": f"{i}?", "tests": {"inputs": ["1" * n for n in range(30)], "outputs": ["x"] * 30}} for i in range(9)
    ]
    path = tmp_path / "rows.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    env = Code(source="hub", hub=str(path), question_key="problem", max_tests=3)
    task = next(env.tasks("train", 0))
    assert [len(told) for told, _ in task.data["key"]["tests"]] == [29, 28, 27]
    with raises_naming(ValueError, "env:", "expert"):
        list(env.demonstrate(task, 0, ()))


@pytest.mark.parametrize(
    ("keys", "place"), [({"max_tests": 0}, "max_tests=0"), ({"num_test": 0}, "num_test=0"), ({"source": "hub"}, "hub=")]
)
def test_what_cannot_be_is_refused(keys: dict[str, Any], place: str) -> None:
    with raises_naming(ValueError, place):
        Code(**keys)
