"""Comparisons of means over the steps of runs, by hand."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from rlx.base.limits import MistakeError
from rlx.lab.reproduce.comparisons import Comparison
from tests.errors import raises_naming


def folder(path: Path, **metrics: list[float]) -> Path:
    path.mkdir(parents=True)
    steps = zip(*metrics.values(), strict=True)
    lines = [{"step": step, **dict(zip(metrics, values, strict=True))} for step, values in enumerate(steps, 1)]
    (path / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


@pytest.fixture
def runs(tmp_path: Path) -> dict[str, list[Path]]:
    return {
        "carl": [folder(tmp_path / "c0", turns=[1.0, 3.0]), folder(tmp_path / "c1", turns=[4.0, 6.0])],
        "grpo": [folder(tmp_path / "g0", turns=[4.0, 4.0]), folder(tmp_path / "g1", turns=[5.0, 5.0])],
        "none": [folder(tmp_path / "n0", turns=[0.0, 0.0])],
    }


def test_a_ratio_is_of_means_over_steps_and_a_mean_over_seeds(runs: dict[str, list[Path]]) -> None:
    found = Comparison(operands=("carl turns", "grpo turns"), scale=2.0).figure(runs)
    assert found.value == pytest.approx((2 * 2 / 4 + 2 * 5 / 5) / 2)
    assert found.low < found.value < found.high


def test_a_difference_is_paired_by_seed(runs: dict[str, list[Path]]) -> None:
    found = Comparison(operands=("carl turns", "grpo turns"), kind="difference").figure(runs)
    assert found.value == pytest.approx(((2 - 4) + (5 - 5)) / 2)


def test_what_has_no_ratio_or_no_metric_is_named(runs: dict[str, list[Path]]) -> None:
    with raises_naming(MistakeError, "none turns"):
        Comparison(operands=("carl turns", "none turns")).figure(runs)
    with raises_naming(MistakeError, "'reward'"):
        Comparison(operands=("carl reward", "grpo turns")).figure(runs)


def test_an_interval_stays_within_what_two_metrics_can_differ_by(tmp_path: Path) -> None:
    runs: dict[str, list[Path]] = {
        name: [
            folder(tmp_path / f"{name}{seed}", **{"success/mean": [value], "batch/turns": [value]})
            for seed, value in enumerate(values)
        ]
        for name, values in (("a", (0.1, 0.9)), ("b", (0.9, 0.8)))
    }
    shares = Comparison(operands=("a success/mean", "b success/mean"), kind="difference").figure(runs)
    assert (shares.low, shares.high) == (-1.0, 1.0)
    assert Comparison(operands=("a batch/turns", "b batch/turns")).figure(runs).low == 0.0
    counts = Comparison(operands=("a batch/turns", "b batch/turns"), kind="difference").figure(runs)
    assert counts.low < -1 < 1 < counts.high
