"""What every family of questions owes, each option of it that needs no network by itself: splits apart, tasks in JSON,
an expert that is right in every protocol, and a judgement of whatever is answered. What those of Calc-Bench owe besides
is in calc/test_options.py."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import cache
from itertools import islice
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlx.environment.random_play import tries_of
from rlx.environment.world import dialect_of, moves_of
from rlx.gym.named import build_env
from rlx.protocol.answer import Answer
from rlx.protocol.boxed import Boxed
from rlx.protocol.tags import Tags
from rlx.settings.folders import list_options, read_option, shipped_folder
from rlx.types import Action, Step, Task, Text
from tests.errors import raises_naming
from tests.loops import for_each

FAMILIES = ("code", "logic", "math", "qa")
HOSTILE = st.one_of(
    st.text(max_size=40),
    st.sampled_from(
        [
            *(
                "",
                " ",
                "\x00",
                "\x1b[2J",
                "\ud800",
                "x" * 100_000,
                "{" * 5000,
                "\\boxed{" * 500,
                "9" * 5000,
                "١٢",
                "nan",
            ),
            *("__import__('os').system('touch /tmp/rlx-was-here')", "9**9**9**9", "1/0", "[" * 3000, "-", ".", "1e999"),
        ]
    ),
)


def is_here(name: str) -> bool:
    return read_option("env", name).get("source") != "hub" and "hub" not in name


SHIPPED = list(filter(is_here, list_options("env", [shipped_folder("conf")])))
OPTIONS = [name for name in SHIPPED if name.partition("/")[0] in FAMILIES]
CALC = [name for name in SHIPPED if name.startswith("calc/")]


@cache
def make(name: str) -> Any:
    return build_env(name, {})


@cache
def make_hasty(name: str) -> Any:
    """Make the environment with a judge that gives a program one second, for programs without end."""
    env = make(name)
    return replace(env, python=replace(env.python, seconds=1.0)) if hasattr(env, "python") else env


@cache
def some(name: str, split: str) -> tuple[Task, ...]:
    return tuple(islice(make(name).tasks(split, 0), 12))


@for_each("name", [*OPTIONS, *CALC])
def test_splits_never_overlap_and_the_test_is_the_same_for_every_seed(name: str) -> None:
    env = make(name)
    test = [task.id for task in some(name, "test")]
    assert len(set(test)) == len(test) == 12
    assert test == [task.id for task in islice(env.tasks("test", 1), 12)]
    train = [task.id for task in some(name, "train")]
    assert train == [task.id for task in islice(env.tasks("train", 0), 12)]
    assert train != [task.id for task in islice(env.tasks("train", 1), 12)]
    trained, tested = (list(islice(env.tasks(split, 2), 150)) for split in ("train", "test"))
    for asked in (lambda task: task.id, lambda task: task.prompt[0].text):
        assert {asked(task) for task in trained}.isdisjoint(map(asked, tested))
    with raises_naming(ValueError, "split=other", "train", "test"):
        list(env.tasks("other", 0))


@for_each("name", OPTIONS)
def test_a_task_is_json_and_its_expert_is_right_in_one_turn(name: str) -> None:
    env = make(name)
    assert env.max_rounds == 0
    for task in (*some(name, "train"), *some(name, "test")):
        again = replace(task, data=json.loads(json.dumps(task.data)))
        assert again == task
        [move] = moves_of(env, task, 0, ())
        step = env.start(again).step(move.action)
        assert (step.reward, step.done, step.success) == (1.0, True, True)
        for protocol in (Boxed(), Tags(), Answer()):
            dialect = dialect_of(env, protocol)
            assert env.start(task).step(dialect.parse(dialect.write(move), "stop")) == step


@pytest.mark.parametrize("name", OPTIONS)
@given(data=st.data())
def test_whatever_is_answered_is_judged_and_the_same_each_time(name: str, data: st.DataObject) -> None:
    task, text = data.draw(st.sampled_from(some(name, "train"))), data.draw(HOSTILE)
    action = Action(kind=data.draw(st.sampled_from(["answer", "answer", "call", "invalid"])), text=text)
    step = make_hasty(name).start(task).step(action)
    assert step == make_hasty(name).start(task).step(action)
    assert step.done == (action.kind == "answer")
    if step.done:
        assert 0.0 <= step.reward <= 1.0
        assert step.success is not None
    else:
        assert step.observation[0].text.startswith("Error: ")
        assert len(step.observation[0].text) < 300


@for_each("name", OPTIONS)
def test_an_answer_that_is_too_long_is_wrong_and_a_turn_without_one_goes_on(name: str) -> None:
    env, task = make(name), some(name, "train")[0]
    assert env.start(task).step(Action(kind="answer", text="x" * 100_000)) == Step(done=True, success=False)
    episode = env.start(task)
    told = episode.step(Action(kind="invalid", text="say it in a box"))
    assert told == Step(observation=(Text("Error: say it in a box"),))
    [move] = moves_of(env, task, 0, ())
    assert episode.step(move.action).success


@for_each("name", [*OPTIONS, *CALC])
def test_random_tries_are_judged(name: str) -> None:
    if not make(name).has_random_tries:
        pytest.skip("it has none")
    task = some(name, "train")[0]
    tries = list(tries_of(make(name), task, 20, 0))
    assert tries == list(tries_of(make(name), task, 20, 0))
    assert 0 < len(tries) <= 20
    assert all(make(name).start(task).step(action).done for action in tries)


@for_each("name", FAMILIES)
def test_an_answer_that_earns_nothing_has_the_reward_of_wrong_ones(name: str) -> None:
    env = build_env(name, {"reward_wrong": -1.0})
    task = next(env.tasks("train", 0))
    (right,) = moves_of(env, task, 0, ())
    assert env.start(task).step(right.action).reward == 1.0
    wrong = env.start(task).step(Action(kind="answer", text="no such answer"))
    assert (wrong.reward, wrong.success, wrong.done) == (-1.0, False, True)
    assert env.start(task).step(Action(kind="answer", text="x" * 100_000)).reward == -1.0
    assert env.reward_range == (-1.0, 1.0)


@pytest.mark.parametrize("value", [0.5, -1001.0])
def test_a_wrong_answer_is_not_paid(value: float) -> None:
    with raises_naming(ValueError, f"reward_wrong={value}"):
        replace(build_env("logic", {}), reward_wrong=value)
