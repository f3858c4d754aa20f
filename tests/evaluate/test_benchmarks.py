"""General benchmarks without the harness: words, task files as data, paired rows."""

from __future__ import annotations

import json
import math
import os
from pathlib import Path
from typing import Any

import pytest
import yaml

from rlx.commands.benchmark import split_benchmarks
from rlx.config.check import ConfigError
from rlx.evaluate.benchmarks import BenchmarkError, Score, benchmark_table, row_from_json, row_json, rows_of
from rlx.evaluate.intervals import difference, intervals, share_of
from rlx.evaluate.task_file import digest_of_files, read_task, task_files
from rlx.runs.summary import without_infinities
from tests.errors import raises_naming

KEY = ("sums", "acc", "none")
METRICS = {"acc", "acc_norm"}
TASK: dict[str, Any] = {
    "task": "sums",
    "dataset_path": "json",
    "dataset_kwargs": {"data_files": {"test": "sums.jsonl"}},
    "test_split": "test",
    "output_type": "multiple_choice",
    "doc_to_text": "{{question}}",
    "metric_list": [{"metric": "acc", "aggregation": "mean", "higher_is_better": True}],
}


def score(*examples: float, prompts: str = "") -> dict[tuple[str, str, str], Score]:
    return {KEY: Score(value=sum(examples) / len(examples), examples=examples, prompts=prompts)}


def write(folder: Path, changes: dict[str, Any] | None = None, name: str = "sums.yaml", more: str = "") -> Path:
    (folder / "sums.jsonl").write_text('{"question": "1 + 1?", "choices": ["2", "3"], "answer": 0}\n')
    path = folder / name
    path.write_text(yaml.safe_dump(TASK | (changes or {})) + more)
    return path


def test_differences_are_paired_by_example() -> None:
    before, after = (0.0, 1.0) * 50, (0.0, 1.0) * 45 + (1.0, 1.0) * 5
    (row,) = rows_of(score(*after), score(*before), num_resamples=1000, seed=0)
    ratios = [share_of(after), share_of(before)]
    found = intervals(ratios, 1000, 0)
    assert row.num == 100
    assert row.difference == difference(ratios[0], ratios[1], found[0], found[1])
    assert row.difference is not None
    assert row.difference.value == pytest.approx(0.05)
    mixed = (1.0, 0.0) * 45 + (1.0, 1.0) * 5  # the same figure, of other examples
    (apart,) = rows_of(score(*mixed), score(*before), num_resamples=1000, seed=0)
    assert apart.difference is not None
    assert apart.difference.high - apart.difference.low > 2 * (row.difference.high - row.difference.low)


def test_prompts_that_differ_are_not_paired() -> None:
    with raises_naming(BenchmarkError, "prompts", "benchmark="):
        rows_of(score(1.0, prompts="a"), score(1.0, prompts="b"), num_resamples=10, seed=0)


def test_a_figure_that_is_no_mean_has_no_interval() -> None:
    (row,) = rows_of({KEY: Score(value=7.5)}, {KEY: Score(value=9.0)}, num_resamples=10, seed=0)
    assert benchmark_table([row]).rows == (("sums", "acc", "–", "9.000", "7.500", "-1.500"),)
    assert row_json(row)["interval"] is None


@pytest.mark.parametrize("values", [(1.0, 0.0, 1.0, 1.0), (1.5,), (2.0, 3.0)])
def test_rows_are_read_as_they_were_written(values: tuple[float, ...]) -> None:
    for before in (None, score(*values)):
        (row,) = rows_of(score(*values), before, num_resamples=100, seed=0)
        text = json.dumps(without_infinities(row_json(row)), allow_nan=False)
        assert row_from_json(json.loads(text)) == row


def test_one_unbounded_value_has_no_ends() -> None:
    (row,) = rows_of(score(1.5), None, num_resamples=100, seed=0)
    assert math.isinf(row.after.low)
    assert benchmark_table([row]).header == ("benchmark", "metric", "examples", "value")


def test_words_of_benchmarks_are_separated_from_the_others() -> None:
    words = ["benchmark=arc_challenge,a/b.yaml", "seed=1", "benchmark_limit=1000", "benchmark_shots=0"]
    found, rest = split_benchmarks(words)
    assert found is not None
    assert (found.names, found.limit, found.shots, found.code) == (("arc_challenge", "a/b.yaml"), 1000, 0, False)
    assert rest == ["seed=1"]
    assert split_benchmarks(["benchmark=[a,b]", "benchmark_limit=null"])[0] == split_benchmarks(["benchmark=a,b"])[0]
    assert split_benchmarks(["seed=1"]) == (None, ["seed=1"])


@pytest.mark.parametrize(
    ("words", "names"),
    [
        (["benchmark="], ["benchmark=", "name"]),
        (["benchmark=a,,b"], ["benchmark=", "name"]),
        (["benchmark=a,a"], ["benchmark=", "once"]),
        (["benchmark_limit=5"], ["benchmark_limit=5", "benchmark=NAME"]),
        (["benchmark=a", "benchmark_limit=0"], ["benchmark_limit=0"]),
        (["benchmark=a", "benchmark_limit=half"], ["benchmark_limit=half"]),
        (["benchmark=a", "benchmark_limit=" + "9" * 5000], ["benchmark_limit=", "integer"]),
        (["benchmark=a", "benchmark_batch_size=0"], ["benchmark_batch_size=0"]),
        (["benchmark=a", "benchmark_code=perhaps"], ["benchmark_code=perhaps"]),
        (["benchmark=a", "benchmark_limt=5"], ["benchmark_limt", "benchmark_limit"]),
    ],
)
def test_words_that_cannot_be_are_one_line(words: list[str], names: list[str]) -> None:
    with raises_naming(ConfigError, *names) as error:
        split_benchmarks(words)
    assert len(str(error.value)) < 300


def test_a_task_file_is_read_with_its_data_beside_it(tmp_path: Path) -> None:
    path = write(tmp_path)
    assert read_task(path, METRICS) == TASK | {"dataset_kwargs": {"data_files": {"test": str(tmp_path / "sums.jsonl")}}}
    own = tmp_path / "own.yaml"
    own.write_text("include: sums.yaml\ntask: own\n")
    assert read_task(own, METRICS)["task"] == "own"
    (tmp_path / "base.yaml").write_text("output_type: multiple_choice\n")
    assert task_files(str(tmp_path)) == [own, path]
    files = read_task(path, METRICS)["dataset_kwargs"]["data_files"]
    before = digest_of_files(files)
    (tmp_path / "sums.jsonl").write_text("{}\n")
    assert digest_of_files(files) != before


CODE = "import os\nos.system('touch /tmp/rlx-task-file-ran')\n"


@pytest.mark.parametrize(
    ("changes", "more", "names"),
    [
        ({}, "process_docs: !function os.system\n", ["!function", "imports code", "benchmark_code=true"]),
        ({}, "process_docs: !!python/name:os.system\n", ["imports code"]),
        ({}, "x: !!python/object/apply:os.system ['true']\n", ["imports code"]),
        ({}, "a: &a [x]\nb: *a\n", ["aliases"]),
        ({}, "task: [\n", ["YAML"]),
        ({"class": "utils.Task"}, "", ["key class"]),
        ({"custom_dataset": "utils.load"}, "", ["key custom_dataset"]),
        ({"unsafe_code": True}, "", ["key unsafe_code"]),
        ({"use_prompt": "promptsource:x"}, "", ["key use_prompt"]),
        ({"metric_list": [{"metric": "evil"}]}, "", ["metric 'evil'", "acc"]),
        ({"metric_list": [{"metric": "acc", "hf_evaluate": True}]}, "", ["program"]),
        ({"metric_list": "acc"}, "", ["metric_list:"]),
        ({"dataset_path": "pandas"}, "", ["dataset_path='pandas'", "json, csv, parquet, text"]),
        ({"dataset_path": "./evil.py"}, "", ["dataset_path='./evil.py'"]),
        ({"dataset_path": None}, "", ["dataset_path=None"]),
        (
            {"dataset_kwargs": {"data_files": "http://127.0.0.1:9/x.json"}},
            "",
            ["'http://127.0.0.1:9/x.json'", "server"],
        ),
        ({"dataset_kwargs": {"data_files": "zip://x::evil.zip"}}, "", ["no file", "'zip://x::evil.zip'"]),
        ({"dataset_kwargs": {"data_files": "gone.jsonl"}}, "", ["no file", "'gone.jsonl'"]),
        ({"dataset_kwargs": {}}, "", ["dataset_kwargs.data_files"]),
        (
            {"dataset_kwargs": {"data_files": "sums.jsonl", "storage_options": {}}},
            "",
            ["dataset_kwargs.storage_options"],
        ),
        ({"dataset_path": "a/b"}, "", ["dataset_kwargs.data_files:", "data_dir"]),
        ({"task": ["a", "b"]}, "", ["groups"]),
        ({"group": "all"}, "", ["groups"]),
        ({"include": "sums.yaml"}, "", ["includes itself"]),
        ({"include": "gone.yaml"}, "", ["gone.yaml"]),
        ({"include": {"a": 1}}, "", ["file's name"]),
    ],
)
def test_a_task_file_of_a_stranger_runs_nothing(
    tmp_path: Path, changes: dict[str, Any], more: str, names: list[str]
) -> None:
    ran = Path("/tmp/rlx-task-file-ran")
    ran.unlink(missing_ok=True)
    for name in ("evil.py", "utils.py"):
        (tmp_path / name).write_text(CODE)
    with raises_naming(BenchmarkError, *names):
        read_task(write(tmp_path, changes, more=more), METRICS)
    assert not ran.exists()


def test_what_is_no_task_file_is_one_line(tmp_path: Path) -> None:
    for name, names in (("gone.yaml", ["such file"]), ("", ["no file"])):
        with raises_naming(BenchmarkError, tmp_path / name, *names):
            task_files(str(tmp_path / name))
    os.mkfifo(tmp_path / "pipe.yaml")
    with raises_naming(BenchmarkError, "pipe.yaml", "regular"):
        read_task(tmp_path / "pipe.yaml", METRICS)
    (tmp_path / "raw.yaml").write_bytes(b"\xff\xfe\x00")
    with raises_naming(BenchmarkError, "raw.yaml", "YAML"):
        read_task(tmp_path / "raw.yaml", METRICS)
