"""TensorBoard's event files: each step once, wherever a run was killed and resumed."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rlx.base.console import Screen
from rlx.plan.checks import check_train
from rlx.plan.prospect import Prospect
from rlx.runs.event_files import EventFiles
from rlx.runs.track import Track, append_metrics, truncate_metrics
from rlx.runs.trackers import open_dashboards
from rlx.settings.check import ConfigError
from rlx.training import train
from tests.errors import raises_naming

loader = pytest.importorskip("tensorboard.backend.event_processing.event_file_loader", reason="without the extra")
Scalars = dict[str, list[tuple[int, float]]]


def scalars(folder: Path) -> Scalars:
    """Every scalar in the files as they are: nothing is purged by their reader."""
    found: Scalars = {}
    for file in sorted((folder / "tensorboard").glob("events.out.tfevents.*")):
        for event in loader.LegacyEventFileLoader(str(file)).Load():
            for value in event.summary.value:
                found.setdefault(value.tag, []).append((event.step, value.simple_value))
    return found


def take(files: EventFiles, *steps: int) -> None:
    """Write steps as a run does: metrics.jsonl first."""
    for step in steps:
        append_metrics(files.folder / "metrics.jsonl", step, {"reward/mean": float(step)})
        files.log(step, {"reward/mean": float(step)})


def test_steps_and_final_figures_are_in_the_files(tmp_path: Path) -> None:
    files = EventFiles(tmp_path)
    take(files, 1, 2)
    files.finish({"eval/pass@1": (0.5, 0.25, 0.75)}, 0)
    assert scalars(tmp_path) == {"reward/mean": [(1, 1.0), (2, 2.0)], "eval/pass@1": [(2, 0.5)]}


@pytest.mark.parametrize("checkpoint", [0, 1, 2, 3])
def test_steps_that_are_played_again_do_not_stand_twice(checkpoint: int, tmp_path: Path) -> None:
    take(EventFiles(tmp_path), 1, 2, 3)  # killed: never finished
    truncate_metrics(tmp_path / "metrics.jsonl", checkpoint)
    again = EventFiles(tmp_path)
    take(again, *range(checkpoint + 1, 5))
    again.finish({}, 0)
    assert scalars(tmp_path) == {"reward/mean": [(step, float(step)) for step in range(1, 5)]}


def test_a_run_that_ends_without_a_new_step_has_all_of_them(tmp_path: Path) -> None:
    take(EventFiles(tmp_path), 1, 2)
    for file in (tmp_path / "tensorboard").iterdir():
        file.write_bytes(file.read_bytes()[:-7])  # torn by a kill
    EventFiles(tmp_path).finish({"eval/reward": (1.0, 1.0, 1.0)}, 0)
    assert scalars(tmp_path) == {"reward/mean": [(1, 1.0), (2, 2.0)], "eval/reward": [(2, 1.0)]}


def test_steps_that_a_full_queue_dropped_are_written_with_the_next(tmp_path: Path) -> None:
    files = EventFiles(tmp_path)
    take(files, 1)
    for step in (2, 3):
        append_metrics(tmp_path / "metrics.jsonl", step, {"reward/mean": float(step)})
    take(files, 4)
    files.finish({}, 0)
    assert [step for step, _ in scalars(tmp_path)["reward/mean"]] == [1, 2, 3, 4]


def test_a_run_without_steps_leaves_no_files_and_others_stay(tmp_path: Path) -> None:
    EventFiles(tmp_path).finish({"eval/reward": (1.0, 1.0, 1.0)}, 0)
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "tensorboard").mkdir()
    (tmp_path / "tensorboard" / "notes.txt").write_text("mine")
    take(EventFiles(tmp_path), 1)
    assert (tmp_path / "tensorboard" / "notes.txt").read_text() == "mine"


def test_hostile_names_are_plain_and_what_is_no_number_is_left_out(tmp_path: Path) -> None:
    files = EventFiles(tmp_path)
    files.log(1, {"env/\ud800\x1b[2J\u202e<b>": 1.0, "env/" + "x" * 10**5: 2.0, "loss/value": float("nan")})
    files.finish({}, 0)
    found = scalars(tmp_path)
    assert len(found) == 2
    assert max(map(len, found)) <= 200
    assert all(name.isprintable() for name in found)


def test_a_package_that_is_missing_is_one_notice_and_the_run_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", None)
    said: list[str] = []
    track = Track(mode="disabled", tensorboard=True)
    (dashboard,) = open_dashboards(track, tmp_path, {}, notice=said.append, code=dict)
    append_metrics(tmp_path / "metrics.jsonl", 1, {"reward/mean": 1.0})
    dashboard.log(1, {"reward/mean": 1.0})
    dashboard.finish({})
    assert len(said) == 1
    assert said[0].startswith("TensorBoard: ModuleNotFoundError: ")


def test_a_run_that_goes_on_writes_every_step_once(small_run: Callable[..., Any], tmp_path: Path) -> None:
    words = ("track.tensorboard=true", "track.mode=disabled")
    train(small_run(tmp_path, "steps=1", *words), Screen(silent=True))
    train(small_run(tmp_path, "steps=2", *words), Screen(silent=True))
    found = scalars(tmp_path)
    assert [step for step, _ in found["reward/mean"]] == [1, 2]
    assert [step for step, _ in found["eval/pass@1"]] == [2]


def test_a_package_that_is_missing_is_said_before_a_run_begins(
    small_run: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rlx.plan.checks.lacks", lambda extra: f"{extra} is missing")
    run = small_run(tmp_path, "track.tensorboard=true")
    with raises_naming(ConfigError, "track.tensorboard=true", "pip install", "track.tensorboard=false"):
        check_train(Prospect(run=run))
