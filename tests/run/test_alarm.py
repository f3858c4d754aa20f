"""Warnings about runs that learn nothing: when they come, and that their advice fits the cause."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from rlx.base.console import Screen
from rlx.model.load import Lora
from rlx.rollout.row import RequestRow
from rlx.run.alarm import Alarms, alarms_after, decline, newest_stored, warnings_of
from rlx.run.run import Run
from rlx.runs.summary import Estimate
from rlx.training import train

Build = Callable[..., Run]
GOOD = {"turn/invalid": 0.2, "advantage/zero": 0.5, "gradient/norm": 1.0, "success/any": 0.5, "success/mean": 0.25}
SILENT = {**GOOD, "turn/invalid": 1.0, "advantage/zero": 1.0, "gradient/norm": 0.0, "success/any": 0.0}
EQUAL = {**SILENT, "turn/invalid": 0.2}
FLAT = {**GOOD, "gradient/norm": 0.0}


def lines(*steps: dict[str, float]) -> list[dict[str, Any]]:
    return [{"step": number, **step} for number, step in enumerate(steps, start=1)]


@pytest.fixture
def run(small_run: Build, tmp_path: Path) -> Run:
    return small_run(tmp_path / "run")


def test_a_cause_is_told_after_three_steps_in_a_row_and_then_rarely(run: Run) -> None:
    found = alarms_after(lines(SILENT, SILENT, GOOD, *[SILENT] * 299), run)[1]
    assert [text.split(":")[0] for text in found] == ["step 6", "step 33"]
    assert not alarms_after(lines(SILENT, SILENT, EQUAL, SILENT, SILENT, FLAT, FLAT), run)[1]
    assert len(alarms_after(lines(*[SILENT] * 300), run)[1]) == 3


@pytest.mark.parametrize(("step", "said"), [(SILENT, "invalid"), (EQUAL, "reward"), (FLAT, "gradient")])
def test_the_first_cause_of_a_step_is_told_alone(run: Run, step: dict[str, float], said: str) -> None:
    (text,) = warnings_of(run, lines(step, step, step), {})
    assert said in text
    assert f"rlx show {run.folder} " in text


def test_a_gap_between_engine_and_learner_is_told_where_both_hold_the_same_weights(run: Run) -> None:
    near, far = ({**GOOD, "gap/engine": factor * run.hardware.tolerance} for factor in (0.9, 1.1))
    assert not alarms_after(lines(*[near] * 5, far, far, near, far), run)[1]
    (text,) = alarms_after(lines(near, far, far, far), run)[1]
    assert text.startswith("step 4: gap/engine")
    assert "rlx check" in text
    served = replace(run.hardware, num_servers=1, engine="vllm", staleness=1)
    dropping = replace(run.model, lora=Lora(dropout=0.1))
    frozen = replace(run.algo, frozen_policy=True)
    for other in (replace(run, hardware=served), replace(run, model=dropping), replace(run, algo=frozen)):
        assert not alarms_after(lines(*[far] * 5), other)[1]


def test_a_gap_is_told_rarely_beside_other_causes_and_by_a_resumed_run(run: Run) -> None:
    far = {"gap/engine": 2 * run.hardware.tolerance}
    steps = lines(*[{**GOOD, **far}] * 299)
    assert [text.split(":")[0] for text in alarms_after(steps, run)[1]] == ["step 3", "step 30"]
    both = alarms_after(lines(*[{**SILENT, **far}] * 3), run)[1]
    assert ["gap/engine" in text for text in both] == [False, True]
    alarms, told = alarms_after(steps[:2], run)
    alarms = alarms.add(steps[2], run)
    assert (alarms, (*told, *alarms.due(steps[2], run))) == alarms_after(steps[:3], run)


@pytest.mark.parametrize("value", [None, "x", 0.0])
def test_a_step_without_a_gap_ends_a_row_of_them(run: Run, value: Any) -> None:
    far = {**GOOD, "gap/engine": 2 * run.hardware.tolerance}
    assert not alarms_after(lines(far, far, {**GOOD, "gap/engine": value}, far, far), run)[1]
    assert not alarms_after(lines(far, far, GOOD, far, far), run)[1]


@pytest.mark.parametrize("error", [0.0, 0.02])
def test_a_run_whose_engine_computes_another_model_warns(
    small_run: Build, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: float
) -> None:
    take = RequestRow.take
    monkeypatch.setattr(RequestRow, "take", lambda row, token, logprob: take(row, token, logprob + error))
    train(small_run(tmp_path / "run", "steps=3", without=("steps",)), Screen(silent=True))
    metrics = [json.loads(line) for line in (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()]
    assert [line["gap/engine"] for line in metrics] == pytest.approx([error] * 3, abs=1e-3)
    warnings = json.loads((tmp_path / "run" / "summary.json").read_text())["warnings"]
    assert sum("gap/engine" in text for text in warnings) == bool(error)


def test_a_run_that_goes_on_warns_as_one_that_was_never_cut_off(run: Run) -> None:
    steps = lines(GOOD, *[SILENT] * 5)
    alarms, told = alarms_after(steps[:3], run)
    for line in steps[3:]:
        alarms = alarms.add(line, run)
        told = (*told, *alarms.due(line, run))
    assert (alarms, told) == alarms_after(steps, run)
    assert Alarms() == alarms_after([], run)[0]


def test_advice_names_the_override_that_fits(run: Run) -> None:
    def advice(step: dict[str, float], run: Run) -> str:
        return warnings_of(run, lines(step, step, step), {})[0]

    cut = {**SILENT, "turn/truncated": 0.9}
    assert "warm_start=tool_sft" in advice(SILENT, run)
    assert f"sampling.max_new_tokens={4 * run.sampling.max_new_tokens}" in advice(cut, run)
    assert "warm_start=tool_sft" in advice(EQUAL, run)
    assert "too easy" in advice({**EQUAL, "success/any": 1.0, "success/mean": 1.0}, run)
    assert "algo.num_samples=8" in advice({**EQUAL, "success/any": 0.5}, run)
    chat = replace(run, model=replace(run.model, chat=True))
    assert "warm_start" not in advice(cut, chat), "a reasoning model that was cut off speaks the protocol"


def test_advice_after_a_warm_start_is_to_warm_up_longer(small_run: Build, tmp_path: Path) -> None:
    warm = small_run(tmp_path, "warm_start=tool_sft", "warm_start.steps=5", without=("warm_start",))
    (text,) = warnings_of(warm, lines(SILENT, SILENT, SILENT), {})
    assert "warm_start.steps=15" in text


def test_an_environment_of_a_mixture_that_is_never_spoken_to_is_named(small_run: Build, tmp_path: Path) -> None:
    run = small_run(tmp_path, "env=[countdown,countdown_hard]", without=("env", "env.max_rounds"))
    step = {**GOOD, "countdown/turn/invalid": 0.0, "countdown_hard/turn/invalid": 1.0}
    (text,) = warnings_of(run, lines(step, step, step), {})
    assert text.startswith("in countdown_hard, step 3: every turn was invalid")


def test_a_policy_that_ended_worse_than_its_start_is_told_and_noise_is_called_no_gain() -> None:
    def gain(value: float, low: float, high: float) -> dict[str, Estimate]:
        return {"gain/reward": Estimate(value=value, low=low, high=high)}

    assert "worse" in decline(gain(-0.3, -0.4, -0.2))
    assert "no gain" in decline(gain(-0.1, -0.3, 0.1))
    assert not decline(gain(0.1, -0.1, 0.3))
    assert not decline({"gain/pass@1": Estimate(value=0.1, low=0.05, high=0.2), **gain(-0.1, -0.3, 0.1)})
    assert not decline({})
    assert "inf" not in decline(gain(-0.1, float("-inf"), float("inf")))


def test_metrics_that_are_no_numbers_are_no_trouble(run: Run) -> None:
    broken = {**SILENT, "turn/truncated": None, "success/any": "x"}
    assert len(alarms_after(lines(broken, broken, broken), run)[1]) == 1  # type: ignore[arg-type]
    equal = {**broken, "turn/invalid": None}
    assert len(alarms_after(lines(equal, equal, equal), run)[1]) == 1  # type: ignore[arg-type]


def collapse(*shares: float | None) -> list[dict[str, Any]]:
    return lines(*({**GOOD, **({} if share is None else {"reply/only_action": share})} for share in shares))


def test_a_collapse_of_reasoning_is_told_once_with_its_steps_and_where_to_see_it(run: Run) -> None:
    (text,) = alarms_after(collapse(0.19, 0.25, 0.39, 0.5, 0.9, 0.1, 0.9), run)[1]
    assert text.startswith("step 4: 0.50 of the replies only state their action, up from 0.19 in step 1; ")
    assert f"`rlx show {run.folder} {newest_stored(run, 4)} --reply only_action`" in text
    assert "\n" not in text


@pytest.mark.parametrize("shares", [(0.6, 0.7, 0.79), (0.0, 0.2, 0.49), (None, None), (None, 0.9, 0.95)])
def test_replies_that_state_their_action_from_the_start_or_seldom_are_no_collapse(
    run: Run, shares: tuple[float | None, ...]
) -> None:
    assert alarms_after(collapse(*shares), run)[1] == ()


def test_a_collapse_is_told_beside_another_cause_and_by_a_resumed_run(run: Run) -> None:
    steps = [{**SILENT, **line} for line in collapse(0.1, None, 0.7)]
    steps = [{**line, **SILENT} for line in steps]
    assert ["only state" in text for text in alarms_after(steps, run)[1]] == [False, True]
    alarms, told = alarms_after(steps[:2], run)
    alarms = alarms.add(steps[2], run)
    assert (alarms, (*told, *alarms.due(steps[2], run))) == alarms_after(steps, run)


def test_a_collapse_in_one_environment_of_a_mixture_is_named(small_run: Build, tmp_path: Path) -> None:
    run = small_run(tmp_path, "env=[countdown,countdown_hard]", without=("env", "env.max_rounds"))
    steps = [
        {**GOOD, "countdown/reply/only_action": 0.1, "countdown_hard/reply/only_action": share} for share in (0, 1)
    ]
    (text,) = alarms_after(lines(*steps), run)[1]
    assert text.startswith("in countdown_hard, step 2: 1.00 of the replies only state their action")
