"""`rlx metrics`: the numbers of runs as CSV."""

from __future__ import annotations

import csv
import io
import json
import os
import subprocess
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlx.base.limits import MistakeError
from rlx.base.regular import IrregularError
from rlx.commands.metrics import FORMULA, csv_text, metric_rows
from rlx.commands.output import OutputError, write_output
from tests.errors import assert_mistake, raises_naming
from tests.hostile import TEXTS, dangers

Command = Callable[..., "subprocess.CompletedProcess[str]"]


def write(run: Path, *lines: dict[str, Any]) -> Path:
    run.mkdir(parents=True)
    (run / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    return run


def test_each_number_of_each_step_of_each_run_is_a_row(tmp_path: Path) -> None:
    one = write(tmp_path / "one", {"step": 1, "b/x": 0.1, "a/x": 1}, {"step": 2, "b/x": None})
    two = write(tmp_path / "two", {"step": 1, "b/x": 0.3})
    rows = list(metric_rows([tmp_path, one]))
    assert rows == [(str(one), 1, "a/x", 1.0), (str(one), 1, "b/x", 0.1), (str(two), 1, "b/x", 0.3)]
    assert [row[2] for row in metric_rows([tmp_path], ["a/x"])] == ["a/x"]


def test_a_step_stands_once_and_a_torn_line_not_at_all(tmp_path: Path) -> None:
    run = write(
        tmp_path / "run", {"step": 1, "x": 1.0}, {"step": 2, "x": 2.0}, {"step": 2, "x": 3.0}, {"step": -1, "x": 1}
    )
    with open(run / "metrics.jsonl", "a") as file:
        file.write('{"step": 3, "x": 4.')
    assert [(step, value) for _, step, _, value in metric_rows([run])] == [(1, 1.0), (2, 3.0)]


def test_hostile_names_and_values_are_plain_cells(tmp_path: Path) -> None:
    names = ["=cmd|'/c calc'!A1", "@x", "+1", "-1", 'a\nb,"c', "\x1b[2J\u202e", "\ud800", "x" * 10**5]
    run = write(tmp_path / "run", {"step": 1, "text": "=1", "large": 10**400, **dict.fromkeys(names, 0.5)})
    text = csv_text(metric_rows([run]))
    rows = list(csv.DictReader(io.StringIO(text)))
    assert len(rows) == len(names) == len(text.splitlines()) - 1
    assert not [row for row in rows if row["metric"].startswith(("=", "+", "-", "@"))]
    assert text.encode()
    assert not {"\x1b", "\u202e", "\ud800"} & set(text)


@given(st.lists(TEXTS, max_size=5))
def test_whatever_a_metric_is_called_its_cell_is_plain_text(names: list[str]) -> None:
    rows = list(csv.reader(io.StringIO(csv_text(iter([(name, 1, name, 0.5) for name in names])))))[1:]
    assert len(rows) == len(names)
    for row in rows:
        assert not row[2].startswith(FORMULA)
        assert not dangers("".join(row))


def test_floats_read_back_as_they_were(tmp_path: Path) -> None:
    run = write(tmp_path / "run", {"step": 1, "x": 0.1 + 0.2})
    (row,) = csv.DictReader(io.StringIO(csv_text(metric_rows([run]))))
    assert float(row["value"]) == 0.1 + 0.2


def test_a_metric_or_a_run_that_is_not_there_is_said(tmp_path: Path) -> None:
    with raises_naming(MistakeError, tmp_path):
        list(metric_rows([tmp_path]))
    write(tmp_path / "run", {"step": 1, "reward/mean": 1.0})
    with raises_naming(MistakeError, "'reward/men'", "reward/mean"):
        list(metric_rows([tmp_path], ["reward/men"]))


@pytest.mark.parametrize("through_link", [False, True])
def test_a_pipe_or_a_device_is_not_replaced_by_a_file(tmp_path: Path, through_link: bool) -> None:
    pipe, link = tmp_path / "pipe", tmp_path / "link"
    os.mkfifo(pipe)
    link.symlink_to(pipe)
    out = link if through_link else pipe
    with raises_naming(OutputError, out):
        write_output(out, "text")
    assert pipe.is_fifo()


def test_a_link_leads_to_the_file_that_is_written(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "file")
    write_output(tmp_path / "link", "text")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "file").read_text() == "text"


def test_the_command_writes_a_file_or_the_screen(rlx_here: Command, tmp_path: Path) -> None:
    run = write(tmp_path / "run", {"step": 1, "reward/mean": 0.5})
    out = tmp_path / "all.csv"
    done = rlx_here("metrics", str(run), "--csv", str(out))
    assert (done.returncode, done.stdout) == (0, "")
    assert (
        out.read_text() == rlx_here("metrics", str(run)).stdout == f"run,step,metric,value\n{run},1,reward/mean,0.5\n"
    )
    assert_mistake(rlx_here("metrics", str(run), "--names", "nothing", "--csv", str(out)), "'nothing'")
    assert out.read_text().count("\n") == 2, "it stays as it was"


def test_metrics_outside_of_the_run_are_refused(tmp_path: Path) -> None:
    outside = write(tmp_path / "outside", {"step": 1, "x": 1.0})
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "metrics.jsonl").symlink_to(outside / "metrics.jsonl")
    with raises_naming(IrregularError, tmp_path / "run" / "metrics.jsonl"):
        list(metric_rows([tmp_path / "run"]))


def test_memory_is_that_of_the_text_and_not_of_the_parsed_lines(tmp_path: Path) -> None:
    names = [f"env/metric_{number}" for number in range(60)]
    run = write(tmp_path / "run", *({"step": step, **dict.fromkeys(names, step / 3)} for step in range(1, 501)))
    size = (run / "metrics.jsonl").stat().st_size
    tracemalloc.start()
    num = sum(1 for _ in metric_rows([run]))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert num == 500 * 60
    assert peak < 2 * size
