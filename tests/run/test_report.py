"""results.md: what was run, when, on what and at what cost; rows that are named for what they are of."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from rlx.run.report import named_rows, results_text
from rlx.run.run import Run
from rlx.runs.provenance import Provenance
from rlx.runs.summary import Cost, Estimate, Git, Summary

Build = Callable[..., Run]
HALF = Estimate(value=0.5, low=0.4, high=0.6)
FIGURES = {f"{noun}/pass@1": HALF for noun in ("random", "start", "eval", "eval@1", "gain", "gain@1")}
SUMMARY = Summary(
    status="finished",
    metrics=FIGURES,
    seed=3,
    provenance=Provenance(packages={"rlx": "0.1.0"}, interpreter="CPython 3.11.9"),
    git=Git(commit="0123456789abcdef", dirty=True),
    cost=Cost(tokens=1234567, tool_calls=1, seconds=75.0, device_hours=0.5),
    ended="2026-01-02 03:04 UTC",
    policy="checkpoints/step-3",
    notes=("an [odd] checkpoint was passed over",),
    warnings=("step 3: every turn was invalid",),
)


def test_results_say_what_was_run_when_how_often_and_at_what_cost(small_run: Build, tmp_path: Path) -> None:
    run = replace(small_run(tmp_path, "seed=3"), words=("env=countdown", "algo=tool_rloo", "a=b c"))
    text = results_text(run, SUMMARY)
    lines = text.splitlines()
    assert lines[0] == "# tool_rloo on Countdown"
    assert "    rlx train env=countdown algo=tool_rloo 'a=b c'" in lines
    for said in (
        "2026-01-02 03:04 UTC",
        "checkpoints/step-3; 2 held-out problems x 2 samples = 4 episodes a row, rounds: 2",
        "an [odd] checkpoint",
        "step 3: every turn was invalid",
        "3 of the run, 0 of a warm start, 0 of evaluation",
        "1,234,567 tokens sampled, 1 tool call, 1 min 15 s, 0.50 device-hours",
        "CPython 3.11.9, rlx 0.1.0, commit 0123456789ab with changes beside it",
        "95%, over problems: Bayesian bootstrap",
    ):
        assert said in text
    assert "| gain over the start | +50.0 [+40.0,+60.0] |" in lines
    assert "| gain over the start, 1 round | +50.0 [+40.0,+60.0] |" in lines
    assert text.count("| tool_rloo | 50.0") == 1


def test_a_long_command_is_whole_so_that_it_can_be_copied(small_run: Build, tmp_path: Path) -> None:
    words = tuple(f"env.parts.part{number}.env.expert=any" for number in range(100))
    text = results_text(replace(small_run(tmp_path), words=words), SUMMARY)
    assert f"    rlx train {' '.join(words)}" in text.splitlines()


def test_a_lent_tool_is_named_with_its_environment(small_run: Build, tmp_path: Path) -> None:
    run = small_run(tmp_path, "env=math_python", without=("env", "algo.num"))
    assert results_text(run, SUMMARY).splitlines()[0] == "# tool_rloo on Math with Python"


def test_what_nothing_has_trained_is_not_called_by_an_algorithms_name(small_run: Build, tmp_path: Path) -> None:
    run = small_run(tmp_path)
    assert list(named_rows(run, FIGURES))[1:] == ["nano, as it is", "tool_rloo", "tool_rloo, 1 round"]
    idle = replace(run, steps=0)
    assert not any("tool_rloo" in name for name in named_rows(idle, FIGURES))
    assert len(named_rows(idle, FIGURES)) == 4
    warm = small_run(tmp_path, "warm_start=tool_sft", "warm_start.steps=2")
    assert list(named_rows(warm, FIGURES))[1] == "tool_sft"
    assert list(named_rows(run, FIGURES, "step-9"))[2] == "step-9"


def test_a_mixture_has_a_row_of_each_part_and_of_their_mean(small_run: Build, tmp_path: Path) -> None:
    run = small_run(tmp_path, "env=mixture", without=("env", "algo.num"))
    parts = {f"eval/{part}/pass@1": HALF for part in ("first", "second")}
    mean = Estimate(value=0.25, low=0.1, high=0.4)
    found = named_rows(run, {"eval/pass@1": HALF, **parts, "eval/overall/pass@1": mean}, "ours")
    assert list(found) == ["ours", "ours, first", "ours, second", "ours, mean of parts"]
    assert found["ours, mean of parts"] == {"eval/pass@1": mean}
