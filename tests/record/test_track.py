from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlx.runs.track import (
    Track,
    append_metrics,
    is_clock,
    metrics_gap,
    metrics_line,
    read_metrics,
    truncate_metrics,
)
from tests.errors import raises_naming
from tests.loops import for_each

FLOATS = st.floats(allow_nan=False, allow_infinity=False)


def test_a_line_has_step_first_and_the_rest_sorted() -> None:
    line = metrics_line(3, {"reward/mean": 0.1, "kl/mean": 1, "time/step": 2.5})
    assert line == '{"step": 3, "kl/mean": 1.0, "reward/mean": 0.1, "time/step": 2.5}'


@given(st.dictionaries(st.text(min_size=1).filter(lambda name: name != "step"), FLOATS, max_size=5))
def test_every_float_reads_back_as_the_same_float(metrics: dict[str, float]) -> None:
    assert json.loads(metrics_line(1, metrics)) == {"step": 1, **metrics}


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_a_value_that_is_not_finite_is_null(value: float) -> None:
    assert metrics_line(1, {"loss/value": value}) == '{"step": 1, "loss/value": null}'


def test_only_three_nouns_depend_on_the_clock() -> None:
    names = ["time/step", "rate/tokens", "memory/peak", "timeout/count", "reward/time", "time"]
    assert [is_clock(name) for name in names] == [True, True, True, False, False, False]


def written(path: Path, num_steps: int) -> Path:
    for step in range(1, num_steps + 1):
        append_metrics(path, step, {"reward/mean": step / 7})
    return path


def test_truncation_leaves_the_file_of_a_run_that_stopped_there(tmp_path: Path) -> None:
    three, five = written(tmp_path / "three", 3), written(tmp_path / "five", 5)
    assert truncate_metrics(five, 3) == 3
    assert five.read_bytes() == three.read_bytes()
    assert [line["step"] for line in read_metrics(five)] == [1, 2, 3]


@given(cut=st.integers(0, 200))
def test_a_torn_file_keeps_its_whole_lines(cut: int, tmp_path_factory: pytest.TempPathFactory) -> None:
    path = written(tmp_path_factory.mktemp("torn") / "metrics.jsonl", 4)
    whole = path.read_bytes()
    path.write_bytes(whole[:cut])
    num_whole = whole[:cut].count(b"\n")
    assert len(read_metrics(path)) == num_whole
    assert truncate_metrics(path, 99) == num_whole
    assert path.read_bytes() == b"".join(whole.splitlines(keepends=True)[:num_whole])


@pytest.mark.parametrize("damage", [b"\x00\x00\n", b"[]\n", b'{"loss": 1}\n', b"\xff\xfe\n", b'{"step": "1"}\n'])
def test_a_damaged_line_costs_its_own_step_alone(tmp_path: Path, damage: bytes) -> None:
    path = written(tmp_path / "metrics.jsonl", 2)
    path.write_bytes(path.read_bytes() + damage + b'{"step": 4}\n')
    assert "of 1 of 4 steps cannot be read, the first of them that of step 3" in metrics_gap(path, 4)
    assert truncate_metrics(path, 9) == 4
    assert [line["step"] for line in read_metrics(path)] == [1, 2, 4]


def test_no_file_is_an_empty_run(tmp_path: Path) -> None:
    assert read_metrics(tmp_path / "none") == []
    assert truncate_metrics(tmp_path / "none", 4) == 0
    assert not (tmp_path / "none").exists()


def test_step_is_not_a_metric(tmp_path: Path) -> None:
    with raises_naming(ValueError, "'step'"):
        append_metrics(tmp_path / "m", 1, {"step": 1.0})


@for_each("bad", [{"timeout": 0}, {"timeout": math.nan}, {"timeout": 1e9}, {"episodes": -1}, {"episodes": 10**9}])
def test_a_wrong_setting_is_refused(bad: dict[str, Any]) -> None:
    with raises_naming(ValueError, f"{next(iter(bad))}="):
        Track(**bad)
