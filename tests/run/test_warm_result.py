"""What a warm start has taught: shown, stored, and a reason to go on for longer."""

from __future__ import annotations

import io
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import pytest
from rich.console import Console

from rlx.base.console import Screen
from rlx.hardware.interrupt import InterruptedRunError
from rlx.run import warm_result
from rlx.run.execution import Execution
from rlx.run.process import Process
from rlx.run.run import Run
from rlx.run.trainee import Trainee
from rlx.run.warm import start_digest
from rlx.run.warm_result import (
    WarmResult,
    advice,
    goes_on,
    read_result,
    result_of,
    result_path,
    rounds_of_warm,
    waiting_for,
)
from rlx.runs.folder import open_folder
from rlx.runs.lock import who
from rlx.training import take_step, train
from rlx.types import Action, Completion, Group, Task, Trajectory, Turn

Build = Callable[..., Run]
RESULT = WarmResult(
    steps=30, loss=0.3, episodes=8, success=0.25, invalid=0.5, most_invalid=0.5, least_earned=0.2, truncated=0.0
)
WARM = ("warm_start=tool_sft", "warm_start.steps=2", "warm_start.algo.num_prompts=2", "warm_start.extend=1", "steps=1")


def test_a_warm_start_goes_on_while_it_does_not_speak_and_its_loss_falls() -> None:
    fluent = replace(RESULT, invalid=0.1, most_invalid=0.1)
    assert goes_on(None, RESULT)
    assert not goes_on(None, fluent)
    assert goes_on(None, replace(fluent, most_invalid=0.9)), "a mixture speaks where each of its environments does"
    assert goes_on(None, replace(fluent, least_earned=0.0)), "nothing earned leaves nothing to reinforce"
    assert goes_on(replace(RESULT, loss=0.5), RESULT)
    assert not goes_on(replace(RESULT, loss=0.31), RESULT), "more of the same teaches nothing"


def test_steps_of_the_recipe_may_be_extended_and_steps_of_ones_own_are_exact(small_run: Build, tmp_path: Path) -> None:
    def lengths(*words: str) -> list[int]:
        before = small_run(tmp_path, *words, without=("warm_start",)).before()
        assert before is not None
        return [part.steps for part in rounds_of_warm(before)]

    assert lengths("warm_start=tool_sft") == [30, 60, 120, 240]
    assert lengths("warm_start=tool_sft", "warm_start.steps=7") == [7]
    assert lengths("warm_start=tool_sft", "warm_start.steps=7", "warm_start.extend=1") == [7, 14]
    assert lengths("warm_start=brief") == [20, 40, 80, 160]


def test_a_warm_start_is_stored_by_the_policies_of_other_agents(small_run: Build, tmp_path: Path) -> None:
    """Its result follows from episodes with these policies, and its number of steps from the result."""
    run = small_run(tmp_path, "warm_start=tool_sft", "warm_start.steps=7", without=("warm_start",))
    others = replace(run, config={**run.config, "policies": {"blue": {"_target_": "Frozen"}}})
    none = replace(run, config={**run.config, "policies": {}})
    assert start_digest(others) != start_digest(none)
    assert start_digest(none) == start_digest(run)


def test_advice_is_for_a_policy_that_does_not_speak() -> None:
    assert not advice(replace(RESULT, most_invalid=0.2))
    assert "warm_start.steps=90" in advice(RESULT)
    assert "sampling.max_new_tokens" in advice(replace(RESULT, truncated=0.5))


def turn(kind: Literal["answer", "invalid"], reward: float = 0.0) -> Turn:
    done = Completion(token_ids=(1,), logprobs=(0.0,), stop="stop")
    return Turn(prompt_ids=(0,), completion=done, action=Action(kind=kind, text="1"), reward=reward)


def group(task: Task, *turns: Turn) -> Group:
    success = any(turn.reward > 0 for turn in turns)
    return Group(
        task=task, trajectories=(Trajectory(task=task, sample=0, turns=turns, status="done", success=success),)
    )


def test_a_result_has_the_worst_environment_of_a_mixture() -> None:
    """Two walks that end well, and an errand whose two turns are invalid."""
    walk, errand = (Task(id="1", prompt=(), data={}, env=env) for env in ("walk", "errand"))
    good, silent = turn("answer", reward=1.0), turn("invalid")
    found = result_of(3, [{"loss/value": 0.5}], [group(walk, good), group(walk, good), group(errand, silent, silent)])
    assert (found.invalid, found.most_invalid, found.least_earned) == (0.5, 1.0, 0.0)
    assert (found.success, found.loss) == (pytest.approx(2 / 3), 0.5)
    assert found.lack == "speak"
    alone = result_of(3, [], [group(replace(walk, env=""), good)])
    assert (alone.most_invalid, alone.least_earned, alone.lack) == (0.0, 1.0, "")


@pytest.mark.parametrize("text", ["", "{", "[]", '{"loss": "x"}', '{"loss": 1, "success": null}', "9" * 9999])
def test_a_result_that_cannot_be_read_is_none(small_run: Build, text: str, tmp_path: Path) -> None:
    stage = replace(small_run(tmp_path), folder=tmp_path, steps=3)
    result_path(stage).write_text(text)
    assert read_result(stage) is None
    assert read_result(replace(stage, steps=4)) is None


def test_a_warm_start_shows_its_loss_and_its_policy_s_own_success_and_is_found_with_them(
    small_run: Build, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Cut off in its extension, it goes on with that."""
    monkeypatch.setenv("RLX_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(warm_result, "SILENT", -1.0)
    monkeypatch.setattr(warm_result, "STILL_FALLS", 10.0)
    monkeypatch.setattr(warm_result, "NUM_DECIDING", 2)

    def run(name: str) -> str:
        screen = Screen(console=Console(file=io.StringIO(), width=300))
        train(small_run(tmp_path / name, *WARM), screen)
        return (tmp_path / name / "log.txt").read_text()

    def cut_off(execution: Execution, agent: Trainee, step: int, *told: Any) -> Any:
        if (execution.run.steps, step) == (4, 3):
            raise InterruptedRunError(15)
        return take_step(execution, agent, step, *told)

    with monkeypatch.context() as patch:
        patch.setattr("rlx.training.take_step", cut_off)
        with pytest.raises(InterruptedRunError):
            run("cut")
    first = run("cut")
    (folder,) = (tmp_path / "cache" / "warm").iterdir()
    results = [read_result(replace(small_run(tmp_path), folder=folder, steps=steps)) for steps in (2, 4)]
    assert [result is not None for result in results] == [True, True]
    assert f"warm start: {results[1]}" in first
    assert "warning: after the warm start" in first
    line = next(line for line in first.splitlines() if "warm start: 4/4 steps" in line)
    assert "loss" in line
    assert "success" not in line
    again = run("found")
    assert f"found in {folder}, made " in again
    assert f": {results[1]}" in again
    assert (tmp_path / "found" / "trajectories" / "step-000001.jsonl").exists()


def test_who_waits_for_a_warm_start_says_for_whom_and_hears_signals(tmp_path: Path, small_run: Build) -> None:
    said: list[str] = []

    class Listening(Screen):
        def say(self, text: str) -> None:
            said.append(text)

    class Signal:
        def check(self) -> None:
            if len(said) == 1 and said not in heard:
                heard.append(list(said))
                return
            raise InterruptedRunError(2)

    heard: list[list[str]] = []
    process = Process(screen=Listening(), interrupt=Signal())  # type: ignore[arg-type]
    waiter = open_folder(tmp_path / "warm", {}, wait=True, waiting=waiting_for(process, tmp_path / "warm"))
    with open_folder(tmp_path / "warm", {}), pytest.raises(InterruptedRunError), waiter:
        pass
    (text,) = said
    assert f"process {who()['pid']} on " in text
    assert str(tmp_path / "warm") in text
