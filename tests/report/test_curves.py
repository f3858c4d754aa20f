"""Learning curves: means over seeds and steps, and a picture that is the same each time."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest

from rlx.base.limits import MistakeError
from rlx.evaluation.picture import picture_svg
from rlx.view.report.curves import By, Curve, Line, curve_panel, line_of, running_mean
from tests.errors import raises_naming


def write(folder: Path, *values: float | None, spends: int = 0) -> Path:
    """A run whose steps say these; None: nothing. Each spends so many tokens, and as many for each step before it."""
    folder.mkdir()
    lines = [{"step": n} | ({} if x is None else {"x/y": x}) for n, x in enumerate(values, start=1)]
    lines = [line | ({"batch/tokens": spends * line["step"]} if spends else {}) for line in lines]
    (folder / "metrics.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    return folder


def drawn(lines: Mapping[str, Line], *titles: str, by: By = "step") -> str:
    return picture_svg([curve_panel(title, lines, by) for title in titles])


def test_a_point_is_the_mean_of_a_window_that_ends_there() -> None:
    assert running_mean(np.array([1.0, 3.0, 5.0, 7.0]), 2).tolist() == [1.0, 2.0, 4.0, 6.0]
    assert running_mean(np.array([1.0, 3.0]), 9).tolist() == [1.0, 2.0]
    assert running_mean(np.array([4.0, 3.0]), 1).tolist() == [4.0, 3.0]


def test_a_line_is_the_mean_over_seeds_as_far_as_all_of_them_are(tmp_path: Path) -> None:
    folders = [write(tmp_path / "0", 1, 2, 3), write(tmp_path / "1", 3, 4, 5, 6, 6), write(tmp_path / "2", 5, 6, 7)]
    line = line_of(folders, "x/y", 1)
    assert line.steps.tolist() == [1.0, 2.0, 3.0]
    assert line.mean.tolist() == [3.0, 4.0, 5.0]
    # 3, 5, 7: deviation 2, t = 4.3027 with two degrees of freedom
    assert line.end.value == 5.0
    assert (line.end.low, line.end.high) == pytest.approx((5 - 4.3027 * 2 / 3**0.5, 5 + 4.3027 * 2 / 3**0.5))


def test_a_curve_is_read_at_equal_amounts_or_at_its_last_point(tmp_path: Path) -> None:
    folders = [write(tmp_path / "0", 1, 2, 3, spends=10), write(tmp_path / "1", 5, 6, 7, spends=5)]
    line = line_of(folders, "x/y", 1)
    read: dict[float, float] = {}
    for amount in (5, 10, 16, 30, 1000):
        read[amount] = line.point(Curve(metric="x/y", runs=("a",), window=1, by="tokens", amount=amount)).value
    # the first spent 10, 30, 60 tokens, the second 5, 15, 30
    assert read == {5: (1 + 5) / 2, 10: (1 + 6) / 2, 16: (2 + 7) / 2, 30: (2 + 7) / 2, 1000: (3 + 7) / 2}
    assert line.point(Curve(metric="x/y", runs=("a",))) == line.end
    assert line.least_spent("tokens") == 30


def test_a_metric_of_some_steps_is_drawn_at_those(tmp_path: Path) -> None:
    assert line_of([write(tmp_path / "0", None, 1, None, 3)], "x/y", 2).steps.tolist() == [2.0, 4.0]


def test_seeds_are_averaged_step_by_step_though_each_says_it_at_its_own(tmp_path: Path) -> None:
    folders = [write(tmp_path / "0", 1, 2, 3), write(tmp_path / "1", 3, None, 5), write(tmp_path / "2", None, 1)]
    line = line_of(folders[:2], "x/y", 1)
    assert (line.steps.tolist(), line.mean.tolist()) == ([1.0, 3.0], [2.0, 4.0])
    with raises_naming(MistakeError, "'x/y'", "other 2"):
        line_of(folders, "x/y", 1)


def test_a_metric_that_no_step_says_is_named_with_the_file(tmp_path: Path) -> None:
    with raises_naming(MistakeError, tmp_path / "0" / "metrics.jsonl", "'z/w'"):
        line_of([write(tmp_path / "0", 1, 2)], "z/w", 1)
    with raises_naming(MistakeError, "/2/metrics.jsonl:", "'x/y'"):
        line_of([write(tmp_path / "1", 1, 2), write(tmp_path / "2", None)], "x/y", 1)


def test_a_picture_is_the_same_each_time_and_nothing_in_it_is_markup(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    folders = [write(tmp_path / "0", 1, 2, 3), write(tmp_path / "1", 3, 4, 4)]
    lines = {"<script>$x^2$": line_of(folders, "x/y", 2), "other": line_of(folders[:1], "x/y", 1)}
    text = drawn(lines, "Reward <b>", "Turns")
    assert text == drawn(lines, "Reward <b>", "Turns")
    assert "&lt;script&gt;$x^2$" in text
    assert "<script" not in text
    assert text.count("Turns") == 1
    hostile = drawn(lines, "\x1b[31m\ud800\n").encode()
    assert b"\x1b" not in hostile


def test_what_was_spent_is_told_of_each_seed_up_to_the_first_point_that_is_there(tmp_path: Path) -> None:
    folders = [write(tmp_path / "0", 1, 5, 2, spends=10), write(tmp_path / "1", None, 1, 4, spends=1)]
    line = line_of(folders, "x/y", 1)
    assert line.steps.tolist() == [2.0, 3.0]
    assert {by: spent.tolist() for by, spent in line.spent.items()} == {
        "step": [[2.0, 3.0], [2.0, 3.0]],
        "tokens": [[30.0, 60.0], [3.0, 6.0]],
    }
    assert line.until(4, "tokens") == [30.0, 6.0]
    assert line.until(5, "step") == [2.0, None]
    assert line.until(6, "tokens") == [None, None]


def test_what_is_no_number_and_no_step_is_not_said(tmp_path: Path) -> None:
    folder = write(tmp_path / "0", 1, 5, spends=2)
    odd = [None, "x", True, float("nan"), float("inf"), 10**400, [1.0], {}]
    steps = [0, -1, 10**400]
    lines = [{"step": 3 + n, "x/y": value} for n, value in enumerate(odd)] + [{"step": n, "x/y": 1.0} for n in steps]
    with (folder / "metrics.jsonl").open("a") as file:
        file.writelines(f"{json.dumps(line)}\n" for line in lines)
    line = line_of([folder], "x/y", 1)
    assert line.steps.tolist() == [1.0, 2.0]
    assert line.spent["tokens"].tolist() == [[2.0, 6.0]]


def test_a_step_far_beyond_the_others_costs_nothing(tmp_path: Path) -> None:
    folder = write(tmp_path / "0", 1, 5, spends=2)
    with (folder / "metrics.jsonl").open("a") as file:
        file.write(json.dumps({"step": 10**15, "x/y": 1.0}) + "\n")
    line = line_of([folder], "x/y", 1)
    assert line.steps.tolist() == [1.0, 2.0, 1e15]
    assert set(line.spent) == {"step"}


def test_what_not_every_step_spends_is_not_told(tmp_path: Path) -> None:
    folders = [write(tmp_path / "0", 1, 2, spends=3), write(tmp_path / "1", 1, 2)]
    assert set(line_of(folders, "x/y", 1).spent) == {"step"}


def test_a_curve_is_drawn_by_what_was_spent(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    lines = {"one": line_of([write(tmp_path / "0", 1, 2, 3, spends=7)], "x/y", 1)}
    by_tokens, by_steps = drawn(lines, "R", by="tokens"), drawn(lines, "R")
    assert by_tokens != by_steps
    assert ">tokens<" in by_tokens
    assert ">step<" in by_steps
    with raises_naming(ValueError, "by=minutes"):
        Curve(metric="x/y", runs=("one",), by="minutes")  # type: ignore[arg-type]


def test_an_interval_over_seeds_stays_within_the_possible_values_of_its_metric(tmp_path: Path) -> None:
    def end(metric: str, *values: float) -> tuple[float, float]:
        folders = [tmp_path / f"{metric.replace('/', '-')}{seed}" for seed in range(len(values))]
        for folder, value in zip(folders, values, strict=True):
            folder.mkdir()
            (folder / "metrics.jsonl").write_text(f"{json.dumps({'step': 1, metric: value})}\n")
        found = line_of(folders, metric, 1).end
        return found.low, found.high

    for metric in ("success/mean", "sort4/success/mean", "env/f1_hotpot", "reply/only_action"):
        assert end(metric, 0.1, 0.5, 0.9) == (0.0, 1.0), metric
    for metric in ("policy/entropy", "episode/turns", "tool/calls", "env/invalid", "batch/tokens"):
        low, high = end(metric, 0.1, 0.5, 0.9)
        assert (low, high > 1) == (0.0, True), metric
    assert end("critic/explained", 0.2, 0.6, 0.9)[1] == 1.0
    low, high = end("reward/mean", 0.1, 0.5, 0.9)
    assert low < 0 < 1 < high, "nothing is known of the bounds of a reward"
