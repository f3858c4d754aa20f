"""What every task of Calc-Bench owes beside what all questions do, each option of it that needs no network: tasks in
JSON, an expert that is right in every protocol with and without the calculator, an exact judgement."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace
from functools import cache
from itertools import islice, product
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlx.env.calc.calc_sudoku import CalcSudoku
from rlx.env.calc.symbols import Repeat
from rlx.environment.expert import demonstration
from rlx.environment.world import dialect_of, open_episode, parts_of
from rlx.protocol.automaton import Actions, spell_out
from rlx.protocol.boxed import Boxed
from rlx.protocol.direct import Direct
from rlx.protocol.drawn import added_by, chosen_as
from rlx.protocol.expa import ExpA
from rlx.protocol.tags import Tags
from rlx.types import Action, Move, Step, Task
from tests.env.questions.test_questions import CALC, HOSTILE, make, some
from tests.errors import raises_naming
from tests.loops import for_each

JOINT = ("calc_bench", "calc_bench_small")


def test_there_are_the_papers_tasks_and_the_releases() -> None:
    plain = {name.removeprefix("calc/") for name in CALC}
    assert {"arithmetic", "countdown", "count", "gsm8k", "modulo", "repeat", "sudoku"} <= plain


@for_each(
    "name, protocol",
    product([name for name in CALC if name not in ("calc/repeat", "calc/sudoku")], [Tags(), ExpA(stops=("\n",))]),
)
def test_an_expert_that_does_anything_calls_and_answers_and_is_right_only_by_chance(name: str, protocol: Any) -> None:
    env = replace(make(name), expert="any")
    dialect = dialect_of(env, protocol)
    shown = [play(env, task, dialect) for task in islice(env.tasks("train", 0), 60)]
    assert {len(steps) for steps in shown} == {1, 2, 3}
    assert all(step.tool.num_calls == 1 for steps in shown for step in steps[:-1])
    assert sum(step.tool.num_failed for steps in shown for step in steps) <= 6
    assert sum(steps[-1].success is True for steps in shown) < 30
    more = replace(env, any_calls=5)
    assert {len(play(more, task, dialect)) for task in islice(env.tasks("train", 0), 60)} == {1, 2, 3, 4, 5, 6}
    known = [play(replace(env, any_known=1.0), task, dialect) for task in islice(env.tasks("train", 0), 5)]
    assert all(len(steps) == 1 and steps[0].success for steps in known)
    without = replace(env, calculator=None)
    assert len(play(without, next(env.tasks("train", 0)), dialect_of(without, Tags()))) == 1


@pytest.mark.parametrize("kind", [Repeat, CalcSudoku])
def test_what_nothing_could_answer_by_chance_has_no_such_expert(kind: Any) -> None:
    with raises_naming(ValueError, "expert=any"):
        kind(expert="any")
    with raises_naming(ValueError, "any_calls=-1"):
        kind(any_calls=-1)
    with raises_naming(ValueError, "any_known=1.1"):
        kind(any_known=1.1)


@for_each(
    "name, train, test",
    [
        *(("arithmetic", 1000, 2000), ("countdown", 20000, 2000), ("count", 1000, 2000), ("gsm8k", 5317, 579)),
        *(("modulo", 2000, 2000), ("repeat", 1000, 2000), ("sudoku", 400, 200)),
    ],
)
def test_sizes_are_those_of_the_paper_and_its_release(name: str, train: int, test: int) -> None:
    env = make(f"calc/{name}")
    assert (env.num_train, env.num_test) == (train, test)


def play(env: Any, task: Task, dialect: Any) -> list[Step]:
    """The expert's moves, each said and heard."""
    _, shown = demonstration(env, dialect, task, 0)
    with open_episode(env, task) as episode:
        return [episode.step(heard(dialect, one.move)) for one in shown]


def heard(dialect: Any, move: Move) -> Action:
    if not isinstance(dialect, ExpA):
        return dialect.parse(dialect.write(move), "stop")
    automaton = automaton_of(dialect)
    done = chosen_as(dialect.choose(move), automaton, 0, encode)
    assert all(automaton.states[state].allows(chosen) for state, chosen in zip(done.mask_ids, done.chosen_ids))
    return dialect.understand(dialect.choose(move), "stop")


def encode(text: str) -> list[int]:
    return [ord(letter) for letter in text]


@cache
def automaton_of(dialect: ExpA) -> Any:
    added = added_by({"": dialect})
    actions = Actions(first=300, names=tuple(added), descriptions=tuple(tuple(encode(d)) for d in added.values()))
    return spell_out(dialect.draw(actions, encode))


@for_each("name, protocol", product(CALC, [Boxed(), Tags(), ExpA(stops=("\n",))]))
def test_a_task_is_json_and_its_expert_is_right_with_the_calculator(name: str, protocol: Any) -> None:
    env = make(name)
    assert env.pace == "inline"
    dialect = dialect_of(env, protocol)
    for task in (*some(name, "train"), *some(name, "test")):
        again = replace(task, data=json.loads(json.dumps(task.data)))
        assert again == task
        steps = play(env, again, dialect)
        assert (sum(step.reward for step in steps), steps[-1].done, steps[-1].success) == (1.0, True, True)
        assert not any(step.tool.num_failed for step in steps)
        assert all(step.tool.num_calls == 1 for step in steps[:-1])
        assert len(steps) <= env.max_rounds + 1


@for_each("name", CALC)
def test_without_the_calculator_the_expert_answers_at_once(name: str) -> None:
    env = replace(make(name), calculator=None)
    assert env.tools == ()
    for task in some(name, "train"):
        for protocol in (Boxed(), Tags()):
            [step] = play(env, task, dialect_of(env, protocol))
            assert step.success
        refused = env.start(task).step(Action(kind="call", name="calculate", text="1 + 1"))
        assert refused.observation[0].text == "Error: there is no such tool"
        said = Direct().write(Move(thought="", action=Action(kind="answer", text=task.data["answer"])))
        assert env.start(task).step(Direct().parse(said, "stop")).success


@pytest.mark.parametrize("name", CALC)
@given(data=st.data())
def test_whatever_is_answered_is_judged_and_the_same_each_time(name: str, data: st.DataObject) -> None:
    task, text = data.draw(st.sampled_from(some(name, "train"))), data.draw(HOSTILE)
    action = Action(
        kind=data.draw(st.sampled_from(["answer", "answer", "call", "invalid"])), text=text, name="calculate"
    )
    step = make(name).start(task).step(action)
    assert step == make(name).start(task).step(action)
    assert step.done == (action.kind == "answer")
    assert step.reward in (0.0, 1.0)
    assert step.done or len(step.observation[0].text) < 300


@for_each("name", CALC)
def test_what_an_answer_says_last_counts_whatever_words_follow(name: str) -> None:
    env, task = make(name), some(name, "train")[0]

    def is_right(text: str) -> bool:
        return bool(env.start(task).step(Action(kind="answer", text=text)).success)

    right = task.data["answer"]
    assert is_right(f"So it is 1 or 2.\nThe answer is: {right}\n")
    other = "1 + 1" if "countdown" in name else "3.21"
    assert not is_right(f"{right}\nor rather {other}")
    assert is_right(f"{right}\nThat is all.") == ("repeat" not in name and "sudoku" not in name)
    assert not is_right("")


@pytest.mark.parametrize("name", JOINT)
def test_the_joint_set_has_the_four_tasks_and_tests_them_evenly(name: str) -> None:
    env = make(name)
    assert set(parts_of(env)) == {"arithmetic", "countdown", "count", "gsm8k"}
    assert Counter(task.env for task in islice(env.tasks("test", 0), 40)) == dict.fromkeys(parts_of(env), 10)
    for task in islice(env.tasks("train", 0), 8):
        assert play(parts_of(env)[task.env], task, dialect_of(env, Tags(), task.env))[-1].success


def test_the_joint_set_asks_as_often_as_the_paper_has_questions() -> None:
    counts = Counter(task.env for task in islice(make("calc_bench").tasks("train", 0), 273))
    asked = {"arithmetic": 1000, "countdown": 20000, "count": 1000, "gsm8k": 5317}
    assert all(abs(counts[name] - num / 100) <= 1 for name, num in asked.items())
