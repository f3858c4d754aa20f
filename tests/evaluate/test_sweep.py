from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from rlx.commands.output import show_json
from rlx.evaluation.columns import ColumnError
from rlx.evaluation.sweep import differing_keys, read_sweep, short_keys
from rlx.evaluation.sweep_table import sweep_table, sweep_values
from rlx.runs.folder import MARK, FolderError
from rlx.runs.run import require_run
from rlx.runs.summary import Estimate, Summary, write_summary
from tests.errors import raises_naming

FIGURES = {"eval/pass@1": Estimate(value=0.535, low=0.501, high=0.57)}


def run_folder(folder: Path, config: str, status: str = "finished") -> Path:
    folder.mkdir()
    (folder / "config.yaml").write_text(MARK + config)
    write_summary(folder / "summary.json", Summary(status=status, seed=0, metrics=FIGURES))  # type: ignore[arg-type]
    return folder


def test_a_sweep_shows_the_keys_that_differ_and_the_figures(tmp_path: Path) -> None:
    runs = [
        require_run(run_folder(tmp_path / "a", "seed: 1\nenv: {lambda_call: 0.02, max_rounds: 8, numbers: [3, 4]}\n")),
        require_run(run_folder(tmp_path / "b", "seed: 1\nenv: {lambda_call: 0.1, max_rounds: 8, numbers: [3]}\n")),
    ]
    table = sweep_table(runs)
    assert table.header[:4] == ("run", "lambda_call", "numbers", "Pass@1")
    assert [row[:4] for row in table.rows] == [
        ("a", "0.02", "[3, 4]", "53.5 [50.1,57.0]"),
        ("b", "0.1", "[3]", "53.5 [50.1,57.0]"),
    ]


def test_a_sweep_as_json_has_whole_keys_and_names(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run_folder(tmp_path / "a", "seed: 1\nenv: {high: .nan, day: '2026-01-01'}\n")
    run_folder(tmp_path / "b", "seed: 1\nenv: {high: 3.0, day: '2026-01-02'}\n")
    show_json(sweep_values(read_sweep(tmp_path)))
    first, second = json.loads(capsys.readouterr().out)
    assert first["config"] == {"env.high": None, "env.day": "2026-01-01"}
    assert second["config"]["env.high"] == 3.0
    assert second["metrics"]["eval/pass@1"] == {"value": 0.535, "low": 0.501, "high": 0.57}
    assert (first["run"], second["run"], second["status"]) == ("a", "b", "finished")


def test_a_sweep_says_which_runs_have_not_finished(tmp_path: Path) -> None:
    run_folder(tmp_path / "10", "seed: 1\n")
    run_folder(tmp_path / "9", "seed: 2\n", "interrupted")
    (run_folder(tmp_path / "11", "seed: 3\n") / "summary.json").unlink()
    rows = [row[:3] for row in sweep_table(read_sweep(tmp_path), each=True).rows]
    assert rows == [("9", "2", "stopped"), ("10", "1", "finished"), ("11", "3", "killed")]


def test_a_folder_without_runs_is_refused(tmp_path: Path) -> None:
    with raises_naming(ValueError, tmp_path, "no runs"):
        read_sweep(tmp_path)


def test_a_run_is_no_sweep_of_what_hydra_keeps_in_it(tmp_path: Path) -> None:
    run_folder(tmp_path / ".hydra", "seed: 1\n")
    with raises_naming(ValueError, tmp_path, "no runs"):
        read_sweep(tmp_path)


def test_keys_that_one_run_lacks_differ_and_equal_ones_do_not() -> None:
    assert differing_keys([{"a": 1, "b": [1]}, {"a": 1, "b": [1], "c": 2}]) == ["c"]
    assert short_keys(["env.seed", "algo.lr", "evaluate.seed"]) == ["env.seed", "lr", "evaluate.seed"]


@pytest.mark.parametrize("config", ["- 1\n", "a: [", "!!python/object/apply:os.system ['x']\n", ""])
def test_a_hostile_config_is_one_line_that_names_it(tmp_path: Path, config: str) -> None:
    folder = run_folder(tmp_path / "a", config)
    with raises_naming(FolderError, folder / "config.yaml") as caught:
        require_run(folder)
    assert len(str(caught.value).splitlines()) == 1


def test_runs_that_differ_in_their_seeds_alone_are_one_row(tmp_path: Path) -> None:
    for number, (seed, cost) in enumerate([(0, 0.1), (1, 0.1), (0, 0.5), (1, 0.5)]):
        run_folder(tmp_path / str(number), f"seed: {seed}\nenv: {{lambda_call: {cost}}}\nhardware: {{x: {number}}}\n")
    (tmp_path / "0" / "metrics.jsonl").write_text('{"step": 1, "reward/mean": 0.5}\n')
    (tmp_path / "1" / "metrics.jsonl").write_text('{"step": 1, "reward/mean": 1.0}\n')
    runs = read_sweep(tmp_path)
    table = sweep_table(runs)
    assert table.header == ("run", "lambda_call", "Pass@1")
    assert [row[:2] for row in table.rows] == [("0, 1", "0.1"), ("2, 3", "0.5")]
    chosen = sweep_table(runs, "reward/mean")
    assert chosen.rows[0] == ("0, 1", "0.1", "0.750")
    assert len(sweep_table(runs, each=True).rows) == 4
    with raises_naming(ColumnError, "reward/maen", "reward/mean"):
        sweep_table(runs, "reward/maen")


def test_a_mean_over_seeds_has_an_interval_over_problems(finished_run: Path, tmp_path: Path) -> None:
    for name in ("0", "1"):
        shutil.copytree(finished_run, tmp_path / name)
    config = (tmp_path / "1" / "config.yaml").read_text()
    (tmp_path / "1" / "config.yaml").write_text(config.replace("seed: 0\nsteps", "seed: 1\nsteps"))
    (row,) = sweep_table(read_sweep(tmp_path), "pass@1,tool/calls").rows
    (alone,) = sweep_table([require_run(finished_run)], "pass@1,tool/calls").rows
    assert row[0] == "0, 1"
    assert row[1].split()[0] == alone[1].split()[0]
    assert "[" in row[1]
