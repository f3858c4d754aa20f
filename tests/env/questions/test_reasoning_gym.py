"""reasoning-gym's tasks: drawn the same each time, splits apart, scored by their own data sets; hostile answers are
scored, and nothing comes of them."""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rlx.base.limits import MistakeError
from rlx.env.questions.reasoning_gym import LIMITS, ReasoningGym
from rlx.tool.contain.process import ChildError
from rlx.types import Action, Task
from tests.errors import raises_naming

pytest.importorskip("reasoning_gym", reason="reasoning-gym is not installed")
from rlx.env.questions.reasoning_gym_scorer import FORMULAS, LISTS, is_harmless
from tests.loops import for_each

ESCAPE = "__import__('os').system('touch {}')"
FEW = ("leg_counting", "chain_sum", "mini_sudoku", "codeio", "countdown", "spiral_matrix")
PEER = """
import json, os, sys, reasoning_gym
out = os.fdopen(os.dup(1), "w")
os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
def score(data, text, entry):
    try:
        return data.score_answer(text, entry)
    except Exception:
        return None
for line in sys.stdin:
    asked = json.loads(line)
    data = reasoning_gym.create_dataset(asked["task"], size=500, seed=asked["seed"])
    entry = data[asked["index"]]
    scores = [score(data, text, entry) for text in asked["said"]]
    print(json.dumps([entry["question"], scores]), file=out, flush=True)
"""
OTHERWISE = {"codeio", "countdown", "cryptarithm", "knight_swap", "shortest_path", "spiral_matrix"}
"""Tasks that GEM's reasoning-gym 0.1.23 draws or scores otherwise than 0.1.25 does."""
NEWER = {"coin_flip", "path_star"}


def tasks(name: str, num: int, split: str = "train", **keys: Any) -> list[Task]:
    return list(islice(ReasoningGym(task=name, **keys).tasks(split, 0), num))


def score(task: Task, text: str, **keys: Any) -> float:
    step = ReasoningGym(**keys).start(task).step(Action(kind="answer", text=text))
    assert step.done
    assert step.success == (step.reward == 1.0)
    return step.reward


@for_each("name", FEW)
def test_a_task_is_drawn_the_same_each_time_and_its_own_answer_is_right(name: str) -> None:
    drawn, test = tasks(name, 6), tasks(name, 6, "test", num_test=6)
    ReasoningGym().box.end()  # and by another process
    assert drawn == tasks(name, 6)
    assert {task.id for task in drawn}.isdisjoint(task.id for task in test)
    assert test == list(ReasoningGym(task=name, num_test=6).tasks("test", 5))
    assert test != tasks(name, 6, "test", num_test=6, seed=5)
    for task in (*drawn, *test):
        assert json.loads(json.dumps(task.data)) == task.data
        [move] = ReasoningGym(task=name).demonstrate(task, 0, ())
        assert score(task, move.action.text) == 1.0
        assert score(task, "") < 1.0


def test_options_are_the_tasks_own() -> None:
    asked = [task.prompt[0].text for task in tasks("chain_sum", 20, options={"min_terms": 5, "max_terms": 5})]
    assert {text.count("+") + text.count("-") for text in asked} == {4}


@for_each(
    "keys, names",
    [
        ({"task": "leg_countin"}, ("env.task=leg_countin", "leg_counting")),
        ({"task": "composite"}, ("env.task=composite", "task")),
        ({"options": {"min_animal": 3}}, ("env.options.min_animal:", "leg_counting", "min_animals")),
        ({"options": {"min_animals": -1}}, ("env.task=leg_counting", "AssertionError:", "min_animals")),
    ],
)
def test_what_reasoning_gym_does_not_have_is_told_in_one_line(keys: dict[str, Any], names: tuple[str, ...]) -> None:
    with raises_naming(MistakeError, *names):
        next(ReasoningGym(**keys).tasks("train", 0))


def test_part_of_an_answer_may_be_part_of_the_reward() -> None:
    [task] = tasks("leg_counting", 1)
    assert 0.0 < score(task, f"{task.data['answer']} legs") < 1.0


def test_a_question_that_is_another_one_now_is_not_scored() -> None:
    [task] = tasks("leg_counting", 1)
    moved = Task(id=task.id, prompt=task.prompt, data={**task.data, "key": {**task.data["key"], "index": 7}})
    assert score(moved, task.data["answer"]) == 0.0


@pytest.mark.parametrize("name", sorted(LISTS | FORMULAS))
def test_scorers_that_evaluate_are_given_nothing_to_call(name: str, tmp_path: Path) -> None:
    [task] = tasks(name, 1)
    escape = ESCAPE.format(tmp_path / "escaped")
    for text in (
        escape,
        f"[{escape}]",
        f"({escape})!",
        f"x + {escape}",
        "[" * 3000,
        "\x00",
        "x" * 20_000,
    ):
        assert score(task, text) < 0.5
    assert score(task, "9**9**9**9", seconds=1.0) < 0.5, "stopped by the time limit, where it is evaluated"
    assert not (tmp_path / "escaped").exists()
    assert score(task, task.data["answer"]) == 1.0 if task.data["answer"] else True


@settings(max_examples=50)
@given(st.sampled_from(FEW), st.text(max_size=60))
def test_whatever_is_answered_has_a_score(name: str, text: str) -> None:
    assert 0.0 <= score(tasks(name, 1)[0], text) <= 1.0


@given(st.text(alphabet="_()[]{}.'\"abcxos+*-/^, 0123456789=:@!\\\n"))
def test_what_a_formula_may_be_has_no_name_but_of_mathematics(text: str) -> None:
    if is_harmless("countdown", text):
        assert not set("_'\"[]{}=:@!\\") & set(text)
    if is_harmless("n_queens", text):
        assert not re.search(r"[a-zF-PR-Z]|[(){}.*:=@\\]", re.sub("'[^']*'|\"[^\"]*\"", "", text))


@for_each(
    "text",
    [
        "[r for r in entry['metadata']['solutions'][0]]",
        "entry['answer']",
        "entry",
        "answer",
        "oracle_answer",
        "entry['metadata']['solution']",
        "f'{entry}'",
        "'a' if entry else 'b'",
        "['a'] + [x]",
        "[__import__('os')]",
        "'\\x41'",
        "_Q__class__",
    ],
)
def test_lists_hold_no_name(text: str) -> None:
    assert not is_harmless("n_queens", text)


@for_each("text", ["[['_', 'Q'], ['Q', '_']]", '["A", "B"]', "[[1, -2], [3, 4]]", "1 2 3", "_ Q\nQ _", "ABCDE"])
def test_plain_lists_are_scored(text: str) -> None:
    assert is_harmless("n_queens", text)


def test_no_constant_answer_earns_anything_by_naming_the_key() -> None:
    told = {"n_queens": "[r for r in entry['metadata']['solutions'][0]]", "string_insertion": "entry['answer']"}
    for name, text in told.items():
        assert all(score(task, text) == 0.0 for task in tasks(name, 3))


@for_each("text", ["(44 - 19)*2 + 35", "x**3/3 + C", "-sin(2*x)/2 + exp(x)", "2.5*x**2 + log(x)", "x^2"])
def test_plain_formulas_are_scored(text: str) -> None:
    assert is_harmless("countdown", text)


@for_each("text", ["os(1)", "x.y", "2.real", "a__b", "S('x')", "x**99999", "getattr(x)", "١.x", "lambda"])
def test_other_formulas_are_not(text: str) -> None:
    assert not is_harmless("countdown", text)


def test_without_the_package_one_line_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rlx.env.questions.reasoning_gym.find_spec", lambda name: None)
    with raises_naming(MistakeError, "env:", "reasoning_gym", "pip install 'rlx[rg]'"):
        ReasoningGym().tasks("train", 0)


@pytest.mark.slow
def test_every_task_is_drawn_the_same_again_and_scored() -> None:
    names = ReasoningGym().ask({"do": "know", "task": ""})["tasks"]
    assert len(names) > 100
    drawn = {name: tasks(name, 2) for name in names}
    ReasoningGym().box.end()
    for name in names:
        assert drawn[name] == tasks(name, 2), name
        for task in drawn[name]:
            assert not task.data["answer"] or score(task, task.data["answer"]) == 1.0, name
            assert 0.0 <= score(task, "\\boxed{" * 50) <= 1.0, name


@pytest.mark.slow
def test_gem_asks_and_scores_the_same_but_for_what_a_newer_version_changed() -> None:
    python = os.environ.get("RLX_GEM_PYTHON")
    if not python:
        pytest.skip("RLX_GEM_PYTHON names no interpreter that has GEM")
    unlike = set()
    with peer_of(python) as hear:
        for name in ReasoningGym().ask({"do": "know", "task": ""})["tasks"]:
            for index in (0, 1) if name not in NEWER else ():
                key = {"task": name, "options": {}, "seed": 42, "size": 500, "index": index}
                drawn = ReasoningGym().ask({"do": "draw", "key": key})
                said = [drawn["answer"] or "0", "", "0", "no", f"It is {drawn['answer']}."]
                told = {"do": "score", "key": key, "question": drawn["question"]}
                ours = [drawn["question"], [scored({**told, "text": text}) for text in said]]
                if ours != hear({"task": name, "seed": 42, "index": index, "said": said}):
                    unlike.add(name)
    assert unlike <= OTHERWISE


def scored(told: dict[str, Any]) -> float | None:
    """None where the scorer raises."""
    try:
        score: float = ReasoningGym().box.ask(told, 60, LIMITS)
    except ChildError:
        return None
    return score


@contextmanager
def peer_of(python: str) -> Iterator[Callable[[Any], Any]]:
    settings = {**os.environ, "PYTHONHASHSEED": "0", "PYTHONPATH": ""}
    pipe, nowhere = subprocess.PIPE, subprocess.DEVNULL
    peer = subprocess.Popen([python, "-c", PEER], stdin=pipe, stdout=pipe, stderr=nowhere, text=True, env=settings)

    def hear(asked: Any) -> Any:
        assert peer.stdin
        assert peer.stdout
        print(json.dumps(asked), file=peer.stdin, flush=True)
        return json.loads(peer.stdout.readline())

    yield hear
    peer.kill()
    peer.wait()


def test_a_data_set_may_have_the_sizes_that_gems_own_scripts_name() -> None:
    for size in (10_000_000, int(1e9), 2**31 - 1):
        env = ReasoningGym(task="leg_counting", size=size, num_test=2)
        assert [task.data["key"]["size"] for task in islice(env.tasks("train", 3), 2)] == [size, size]
        assert len(list(env.tasks("test", 3))) == 2
    with raises_naming(ValueError, "size=0"):
        ReasoningGym(size=0)
