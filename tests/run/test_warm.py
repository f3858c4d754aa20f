"""Warm starts one after another: each on tasks of its own, kept by its content, gone on with where it was cut off."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rlx.base.console import Screen
from rlx.hardware.interrupt import InterruptedRunError
from rlx.plan.prospect import Prospect
from rlx.plan.tasks import check_tasks
from rlx.run.curriculum import TaskError
from rlx.run.execution import Execution
from rlx.run.trainee import Trainee
from rlx.runs.track import is_clock
from rlx.settings.compose import ConfigError
from rlx.training import take_step, train
from tests.errors import raises_naming

Build = Callable[..., Any]
QUIET = Screen(silent=True)
CURRICULUM = (
    "steps=1",
    "evaluate.num_tasks=1",
    "warm_start=tool_sft",
    "warm_start.steps=2",
    "warm_start.algo.num_prompts=1",
    "+env@warm_start.env=countdown_hard",
    "+warm_start@warm_start.before=sft",
    "warm_start.before.steps=1",
    "warm_start.before.algo.num_prompts=1",
    "+env@warm_start.before.env=countdown",
    "+protocol@warm_start.before.protocol=answer",
    "protocol=tags",
    "sampling=default",
)
"""Two short stages before a run: answers in text on easy problems, then tools on hard ones."""
GIVEN = ("steps", "evaluate.num_tasks", "warm_start")


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("RLX_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache" / "warm"


@pytest.fixture
def build(small_run: Build) -> Build:
    return lambda folder, *words: small_run(folder, *CURRICULUM, *words, without=GIVEN)


def metrics(folder: Path) -> list[dict[str, Any]]:
    lines = (folder / "metrics.jsonl").read_text().splitlines()
    return [{key: value for key, value in json.loads(line).items() if not is_clock(key)} for line in lines]


def stages(cache: Path) -> dict[int, Path]:
    """The folders in the cache, by how many steps their stage has."""
    return {len(metrics(folder)): folder for folder in cache.iterdir()}


def test_each_stage_is_a_run_of_its_own_kept_by_its_own_content(cache: Path, build: Build, tmp_path: Path) -> None:
    run = build(tmp_path / "run")
    assert [stage.env.target_high for stage in run.stages()] == [100, 100, 100]
    assert [stage.env.require_product for stage in run.stages()] == [False, True, False]
    assert [type(stage.protocol).__name__ for stage in run.stages()] == ["Answer", "Tags", "Tags"]
    train(run, QUIET)
    found = stages(cache)
    assert found.keys() == {1, 2}
    made = {steps: (folder / "metrics.jsonl").stat().st_mtime_ns for steps, folder in found.items()}
    train(build(tmp_path / "other", "warm_start.env.high=15", "env.lambda_call=0.5"), QUIET)
    again = [folder for folder in cache.iterdir() if folder not in found.values()]
    assert len(again) == 1, "the first stage serves another second one"
    assert {steps: (folder / "metrics.jsonl").stat().st_mtime_ns for steps, folder in found.items()} == made
    train(build(tmp_path / "alone", "warm_start.before=null"), QUIET)
    (alone,) = {*cache.iterdir()} - {*found.values(), *again}
    assert metrics(alone)[0]["loss/value"] != metrics(found[2])[0]["loss/value"], "it begins with what came before it"


def test_a_curriculum_cut_off_in_its_second_stage_goes_on_to_the_same_bits(
    cache: Path, build: Build, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def cut_off(execution: Execution, agent: Trainee, step: int, *told: Any) -> Any:
        if (execution.run.steps, step) == (2, 1):
            raise InterruptedRunError(15)
        return take_step(execution, agent, step, *told)

    with monkeypatch.context() as patch:
        patch.setattr("rlx.training.take_step", cut_off)
        with pytest.raises(InterruptedRunError):
            train(build(tmp_path / "cut"), QUIET)
    assert sorted(len(metrics(folder)) for folder in cache.iterdir()) == [1, 1]
    train(build(tmp_path / "cut"), QUIET)
    found = stages(cache)
    whole = {steps: metrics(folder) for steps, folder in found.items()}
    cache.rename(tmp_path / "first")
    train(build(tmp_path / "whole"), QUIET)
    assert {steps: metrics(folder) for steps, folder in stages(cache).items()} == whole
    assert metrics(tmp_path / "cut") == metrics(tmp_path / "whole")


@pytest.mark.parametrize(
    ("words", "names"),
    [
        (("algo@warm_start.before.algo=expa_grpo",), ["warm_start.before.algo.space=expanded", "protocol=expa"]),
        (("+sampling@warm_start.before.sampling=long", "warm_start.before.sampling.max_context=9999"),
         ["warm_start.before.sampling.max_context=9999"]),
    ],
)  # fmt: skip
def test_what_a_stage_cannot_be_is_told_with_its_place(
    build: Build, tmp_path: Path, words: tuple[str, ...], names: list[str]
) -> None:
    with raises_naming(ConfigError, *names):
        build(tmp_path, *words)


def test_a_stage_without_tasks_is_refused_before_anything_is_trained(build: Build, tmp_path: Path) -> None:
    words = ("warm_start.before.env.source=hub", f"warm_start.before.env.hub={tmp_path}/none.jsonl")
    with raises_naming(TaskError, "warm_start.before.env.hub="):
        check_tasks(Prospect(run=build(tmp_path, *words)))
