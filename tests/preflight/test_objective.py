"""The number that a sweeper gets from a run."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from rlx.commands.objective import LAST, value_of
from rlx.plan.metric_names import metrics_of
from rlx.plan.objective import ObjectiveError, check_objective
from rlx.plan.prospect import Prospect
from rlx.run.run import Run
from rlx.runs.summary import Estimate, Summary
from rlx.settings.compose import build_run, compose
from tests.errors import raises_naming
from tests.loops import for_each


def run_of(*words: str, folder: Path = Path()) -> Run:
    return build_run(compose(words), folder)


def summary(value: float) -> Summary:
    return Summary(status="finished", seed=0, metrics={"eval/reward": Estimate(value=value, low=0, high=1)})


@for_each("name", ["eval/reward", "eval/pass@16", "eval@5/reward", "success/mean", "tool/calls"])
def test_an_objective_is_a_metric_that_the_run_will_have(name: str) -> None:
    check_objective(Prospect(run=run_of("evaluate=paper", f"objective={name}")))


@for_each(
    "name",
    [
        "second/success/mean",
        "first/tool/calls",
        "eval/first/pass@1",
        "eval@5/second/reward",
        "env/guesses",
        "second/env/guesses",
        "eval/second/env/guesses",
    ],
)
def test_so_is_one_of_a_part_or_of_what_an_environment_measures(name: str) -> None:
    check_objective(Prospect(run=run_of("env=mixture", "evaluate=paper", f"objective={name}")))


@for_each(
    "words, names",
    [
        (["objective=third/success/mean", "env=mixture"], ["first/success/mean"]),
        (["objective=second/tool/calls", "env=mixture"], []),
        (["objective=first/success/mean"], ["success/mean"]),
        (["objective=envy/guesses"], []),
        (["objective=env/guesses", "steps=0"], ["eval/env/NAME"]),
        (["objective=eval/rewad"], ["eval/reward"]),
        (["objective=eval@5/reward"], ["eval/reward"]),
        (["objective=eval/pass@4", "evaluate.ks=[1]"], []),
        (["objective=success/mean", "steps=0"], []),
        (["objective=[]"], []),
    ],
)
def test_another_name_is_refused_before_the_run(words: list[str], names: list[str]) -> None:
    with raises_naming(ObjectiveError, words[0], *names):
        check_objective(Prospect(run=run_of(*words)))


def test_a_wrong_name_among_others_is_refused_alone() -> None:
    with raises_naming(ObjectiveError, "objective=nothing"):
        check_objective(Prospect(run=run_of("objective=[eval/reward,nothing]")))


def test_no_objective_depends_on_the_clock() -> None:
    assert not [name for name in metrics_of(run_of()) if name.split("/")[0] in ("time", "rate", "memory")]


def test_evaluation_comes_from_the_summary() -> None:
    assert value_of(run_of("objective=eval/reward"), summary(0.25)) == 0.25
    assert value_of(run_of("objective=[eval/reward]"), summary(0.25)) == [0.25]
    assert value_of(run_of(), summary(0.25)) is None


def test_training_comes_from_the_mean_of_the_last_steps(tmp_path: Path) -> None:
    lines = [json.dumps({"step": step, "success/mean": float(step > 5)}) for step in range(1, LAST + 6)]
    (tmp_path / "metrics.jsonl").write_text("\n".join(lines) + "\n")
    run = run_of("objective=[eval/reward,success/mean]", folder=tmp_path)
    assert value_of(run, summary(0.5)) == [0.5, 1.0]


def test_a_value_that_is_not_there_is_told_in_a_line(tmp_path: Path) -> None:
    with raises_naming(ObjectiveError, "objective=eval/reward", tmp_path / "summary.json"):
        value_of(run_of("objective=eval/reward", folder=tmp_path), summary(float("nan")))
    with raises_naming(ObjectiveError, "objective=success/mean", tmp_path / "metrics.jsonl"):
        value_of(run_of("objective=success/mean", folder=tmp_path), summary(1.0))


def test_a_metric_that_no_episode_had_is_told_beside_those_they_had(tmp_path: Path) -> None:
    (tmp_path / "metrics.jsonl").write_text('{"step": 1, "env/guesses": 3.0}\n')
    with raises_naming(ObjectiveError, "objective=env/guesess", tmp_path / "metrics.jsonl", "env/guesses"):
        value_of(run_of("objective=env/guesess", folder=tmp_path), summary(1.0))


def test_the_job_of_a_sweep_gives_the_objective(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import rlx.training
    from rlx.cli import train_job

    monkeypatch.setattr(rlx.training, "train", lambda run: summary(0.75))
    assert train_job(run_of("objective=eval/reward", folder=tmp_path)) == 0.75
    assert train_job(run_of(folder=tmp_path)) is None
