"""Run folders: which are found, what is read of them, and what is named where it cannot be."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from rlx.base.regular import IrregularError
from rlx.commands.report import default_folder
from rlx.runs.find import runs_below, short_names
from rlx.runs.run import Damage
from rlx.runs.series import read_columns
from rlx.runs.store import save
from rlx.view.report.cohorts import cohorts_of, unlike_keys
from rlx.view.report.runs import ReportError, RunRecord, read_runs
from tests.errors import raises_naming
from tests.report.run_folders import CONFIG, groups_with, run_folder


def read(*folders: Path) -> list[RunRecord]:
    return read_runs(folders, lambda name: True)


def test_runs_are_found_below_a_folder_in_the_order_of_their_numbers(tmp_path: Path) -> None:
    for name in ("10", "2", "b/0", ".hidden"):
        run_folder(tmp_path / name)
    run_folder(tmp_path / "2" / "evaluations" / "x")
    (tmp_path / "link").symlink_to(tmp_path)
    assert [run.relative_to(tmp_path).as_posix() for run in runs_below(tmp_path, nested=False)] == ["2", "10", "b/0"]
    (tmp_path / "empty").mkdir()
    with raises_naming(ReportError, tmp_path / "empty"):
        read(tmp_path / "empty")


def test_a_run_is_named_by_the_fewest_parts_of_its_path_that_tell_it_apart() -> None:
    assert short_names([Path("/x/grpo/0")]) == ["grpo/0"]
    assert short_names([Path("/x/one")]) == ["one"]
    assert short_names([Path("/x/a/run"), Path("/x/b/run")]) == ["a/run", "b/run"]
    assert short_names([Path("/x/a/s/0"), Path("/x/b/s/0")]) == ["a/s/0", "b/s/0"]


def test_columns_have_the_last_finite_value_of_each_step_and_count_what_is_torn(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    lines = ['{"step": 2, "a": 1}', '{"step": 1, "a": 5, "b": null}', '{"step": 2, "a": 3}', '{"step": 5, "a": true}']
    path.write_text("\n".join([*lines, "nonsense", '{"step": 0, "a": 1}', '{"step": 6, "a": 1']))
    found = read_columns(path, lambda name: True)
    assert set(found.series) == {"a"}
    assert (found.series["a"].steps.tolist(), found.series["a"].values.tolist()) == ([1, 2], [5.0, 3.0])
    assert (found.last, found.num_torn, found.num_missing) == (5, 3, 2)
    assert read_columns(path, lambda name: name == "b").series == {}


def test_everything_that_is_damaged_is_named_and_the_rest_is_read(tmp_path: Path) -> None:
    folder = run_folder(tmp_path / "bad")
    (folder / "config.yaml").write_text("a: [")
    (folder / "summary.json").write_text('{"status": "finished"')
    with (folder / "metrics.jsonl").open("a") as file:
        file.write('{"step": 9, "a": 1}\n{"st')
    good = run_folder(tmp_path / "good")
    first, second = read(tmp_path / "bad", good)
    assert [one.place for one in first.damage] == [
        "bad/config.yaml", "bad/summary.json", "bad/metrics.jsonl", "bad/metrics.jsonl",
    ]  # fmt: skip
    assert not any(str(tmp_path) in one.reason for one in first.damage)
    assert (first.config, first.summary, first.state, first.columns.last) == ({}, None, "unreadable", 9)
    assert (second.damage, second.state) == ((), "finished")
    (folder / "metrics.jsonl").unlink()
    (folder / "metrics.jsonl").mkdir()
    assert read(folder)[0].columns.last == 0


def test_runs_that_differ_in_their_seeds_alone_share_their_figures(tmp_path: Path) -> None:
    run_folder(tmp_path / "grpo" / "0", solved=3)
    run_folder(tmp_path / "grpo" / "1", seed=1, solved=5)
    run_folder(tmp_path / "rloo" / "0", changes={"algo": {"_target_": "rlx.algo.rloo.rloo", "num_prompts": 2}})
    grpo, rloo = cohorts_of(read(tmp_path))
    assert (grpo.name, rloo.name) == ("grpo", "rloo")
    assert list(grpo.figures) == ["start", "eval", "gain"]
    mean = grpo.figures["eval"]["eval/pass@1"]
    assert mean.value == pytest.approx((3 + 5) / 12)
    assert 0 < mean.low < mean.value < mean.high < 1
    assert grpo.figures["gain"]["eval/pass@1"].value == pytest.approx((2 + 4) / 12)
    assert rloo.figures["eval"]["eval/pass@1"].value == 0.5


def test_seeds_whose_episodes_are_lost_keep_a_mean_that_nothing_bounds(tmp_path: Path) -> None:
    run_folder(tmp_path / "a" / "0")
    second = run_folder(tmp_path / "a" / "1", seed=1, solved=5)
    (second / "trajectories" / "eval-own.jsonl").write_text("nonsense\n")
    (cohort,) = cohorts_of(read(tmp_path))
    figure = cohort.figures["eval"]["eval/pass@1"]
    assert (figure.value, figure.low, figure.high) == (pytest.approx(8 / 12), float("-inf"), float("inf"))
    assert cohort.figures["start"]["eval/pass@1"].low > 0
    (damage,) = cohort.damage
    assert damage.place == "a"
    assert "eval, gain" in damage.reason
    save(second / "trajectories" / "eval-own.jsonl", groups_with(5)[:4], max_rounds=None)
    assert [one.place for one in cohorts_of(read(tmp_path))[0].damage] == ["a"], "other tasks cannot be averaged"


def test_a_sweep_is_named_by_what_it_varies(tmp_path: Path) -> None:
    for number, price in enumerate((0.0, 0.1)):
        run_folder(tmp_path / "sweep" / str(number), changes={"env": CONFIG["env"] | {"lambda_call": price}})
    records = read(tmp_path / "sweep")
    assert unlike_keys(records) == ["env.lambda_call"]
    assert [one.name for one in cohorts_of(records)] == ["lambda_call=0.0", "lambda_call=0.1"]


def test_a_run_without_a_configuration_is_with_no_other(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (run_folder(tmp_path / name) / "config.yaml").unlink()
    cohorts = cohorts_of(read(tmp_path))
    assert [[run.name for run in one.runs] for one in cohorts] == [["a"], ["b"]]
    assert cohorts[0].runs[0].damage[0] == Damage(place="a/config.yaml", reason=cohorts[0].runs[0].damage[0].reason)


def test_a_run_that_has_not_ended_is_read_as_far_as_it_is(tmp_path: Path) -> None:
    folder = tmp_path / "new"
    folder.mkdir()
    (folder / "metrics.jsonl").write_text(json.dumps({"step": 1, "reward/mean": 1.0}) + "\n")
    (record,) = read(folder)
    assert (record.state, record.has_figures, record.columns.last) == ("killed", False, 1)


@pytest.mark.parametrize("name", ["config.yaml", "metrics.jsonl", "summary.json"])
def test_a_file_outside_of_the_run_is_named_and_not_read(name: str, tmp_path: Path) -> None:
    folder = run_folder(tmp_path / "run")
    (folder / name).rename(tmp_path / name)
    (folder / name).symlink_to(tmp_path / name)
    (found,) = read(folder)
    assert [one.place for one in found.damage] == [f"run/{name}"]
    assert [bool(found.config), bool(found.series), found.summary is not None].count(False) == 1


def test_a_pipe_in_the_summarys_place_is_not_waited_for(tmp_path: Path) -> None:
    folder = run_folder(tmp_path / "run")
    (folder / "summary.json").unlink()
    os.mkfifo(folder / "summary.json")
    (found,) = read(folder)
    assert [one.place for one in found.damage] == ["run/summary.json"]


def test_no_report_is_written_where_a_link_of_the_run_leads(tmp_path: Path) -> None:
    folder = run_folder(tmp_path / "run")
    (tmp_path / "outside").mkdir()
    (folder / "report").symlink_to(tmp_path / "outside")
    with raises_naming(IrregularError, folder / "report"):
        default_folder([folder])
