"""Episodes played before training: faults that only threads or neighbours cause are found without a model."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

import pytest

from rlx.base.console import Screen
from rlx.environment import Environment, Episode
from rlx.hardware.interrupt import Interrupt
from rlx.run.execution import Execution, RunError
from rlx.run.process import Process
from rlx.run.rehearsal import rehearse
from rlx.run.run import Run
from rlx.runs.single_files import read_json
from rlx.training import train
from rlx.types import Action, Move, Step, Task, Text, Verb
from tests.errors import raises_naming

Build = Callable[..., Run]


@dataclass(frozen=True, kw_only=True)
class Library(Environment):
    """Two questions to a table, then an answer."""

    keeps: Literal["nothing", "connection", "hidden_connection", "count", "growing_count"] = "nothing"
    """What lives longer than a call."""
    pace: str = "ticks"
    tools: Any = (Verb(name="ask", description="ask the table", argument="key"),)
    count: list[int] = field(default_factory=lambda: [0])

    def tasks(self, split: str, seed: int) -> Iterator[Task]:
        return iter([Task(id=f"{split}{i}", prompt=(Text("Ask."),), data={"key": i}) for i in range(5)])

    def start(self, task: Task) -> Desk:
        return Desk(self, task.data["key"])

    def demonstrate(self, task: Task, seed: int, tools: Sequence[str]) -> Iterator[Move]:
        yield Move(thought="", action=Action(kind="call", name="ask", text="a"))
        yield Move(thought="", action=Action(kind="call", name="ask", text="b"))
        yield Move(thought="", action=Action(kind="answer", text=str(task.data["key"])))


class Desk(Episode):
    def __init__(self, env: Library, key: int) -> None:
        self.env, self.key = env, key
        self.table = sqlite3.connect(":memory:") if "connection" in env.keeps else None
        if env.keeps == "count":
            env.count[0] = key
        if env.keeps == "growing_count":
            env.count[0] += 1

    def step(self, action: Action) -> Step:
        try:
            if self.table is not None:
                self.table.execute("select 1")
        except sqlite3.Error as error:
            if self.env.keeps == "connection":
                raise
            return Step(observation=(Text(f"Error: {error}"),))
        if action.kind == "answer":
            return Step(reward=1.0, done=True, success=True)
        return Step(observation=(Text(str(self.env.count[0])),))


@contextmanager
def execution_of(run: Run) -> Iterator[Execution]:
    yield Execution(run=run, process=Process(screen=Screen(silent=True), interrupt=Interrupt()))


def warnings(run: Run) -> tuple[str, ...]:
    with execution_of(run) as execution:
        rehearse(execution)
        return execution.progress.warnings


@pytest.fixture
def run(small_run: Build, tmp_path: Path) -> Callable[..., Run]:
    return lambda **keys: replace(small_run(tmp_path / "run", "protocol=tags"), env=Library(**keys))  # type: ignore[arg-type]


def test_a_connection_that_belongs_to_a_thread_stops_the_run_and_inline_does_not(run: Callable[..., Run]) -> None:
    with pytest.raises(RunError) as caught:
        warnings(run(keeps="connection"))
    assert "ProgrammingError" in str(caught.value)
    assert "pace = 'inline'" in str(caught.value)
    assert not warnings(run(keeps="connection", pace="inline"))


def test_an_error_of_threads_that_the_environment_turns_into_an_observation_stops_the_run(
    run: Callable[..., Run],
) -> None:
    with pytest.raises(RunError) as caught:
        warnings(run(keeps="hidden_connection"))
    assert "'0' and reward 0 alone, 'Error: SQLite objects created in a thread" in str(caught.value)
    assert "pace = 'inline'" in str(caught.value)
    assert not warnings(run(keeps="hidden_connection", pace="inline"))


def test_answers_that_differ_on_one_thread_too_are_not_blamed_on_threads(run: Callable[..., Run]) -> None:
    (text,) = warnings(run(keeps="growing_count"))
    assert "and reward 0 alone" in text
    assert "start()" in text


@pytest.mark.parametrize("pace", ["inline", "ticks", "live"])
def test_state_that_episodes_share_is_told_at_every_pace_and_else_nothing(run: Callable[..., Run], pace: str) -> None:
    assert not warnings(run(pace=pace))
    (text,) = warnings(run(keeps="count", pace=pace))
    assert "start()" in text


def test_a_run_that_cannot_be_played_fails_before_it_trains_and_says_so(run: Callable[..., Run]) -> None:
    chosen = run(keeps="connection")
    with raises_naming(RunError, "ProgrammingError"):
        train(chosen, Screen(silent=True))
    assert read_json(chosen.folder / "summary.json")["status"] == "failed"
    assert not (chosen.folder / "metrics.jsonl").exists()
    assert not [thread for thread in threading.enumerate() if thread.name == "rehearsal"]


def test_an_error_that_threads_do_not_cause_is_told_and_stops_nothing(run: Callable[..., Run]) -> None:
    class Broken(Library):
        def start(self, task: Task) -> Desk:
            raise OSError("no table")

    (text,) = warnings(replace(run(), env=Broken()))
    assert "no table" in text


def test_an_expert_that_solves_nothing_is_named(run: Callable[..., Run]) -> None:
    @dataclass(frozen=True, kw_only=True)
    class Wrong(Library):
        def start(self, task: Task) -> Desk:
            return Strict(self, task.data["key"])

    class Strict(Desk):
        def step(self, action: Action) -> Step:
            return replace(super().step(action), reward=0.0, success=False)

    (text,) = warnings(replace(run(), env=Wrong()))
    assert "the expert solves none of the first 2 training tasks" in text
    assert "--expert" in text


def test_test_tasks_among_those_of_training_are_counted(run: Callable[..., Run]) -> None:
    @dataclass(frozen=True, kw_only=True)
    class Mixed(Library):
        def tasks(self, split: str, seed: int) -> Iterator[Task]:
            factor = 1 if split == "test" else 10
            return (replace(task, id=str(factor * i)) for i, task in enumerate(super().tasks(split, seed)))

    (text,) = warnings(replace(run(), env=Mixed()))
    assert "1 of 5 training tasks are test tasks too, such as '0'" in text


def test_shipped_environments_pass_in_any_protocol(small_run: Build, tmp_path: Path) -> None:
    given = ("env", "algo", "steps", "protocol")
    for env in ("countdown", "game/sokoban", "math", "[countdown,game/hangman]"):
        for protocol in ("tags", "boxed", "whole"):
            words = (f"env={env}", "algo=reinforce", f"protocol={protocol}", "warm_start=none", "steps=1")
            assert not warnings(small_run(tmp_path, *words, without=given)), words
