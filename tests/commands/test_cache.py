"""`rlx data cache`: it lists and removes what rlx keeps, and nothing else."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from typer.testing import CliRunner

from rlx.cli import app
from rlx.commands.cache import KINDS, NAMES, cache_table, clear, older_than, read_cache
from rlx.runs import cache as record
from rlx.runs.lock import hold

DIGEST = "0123456789abcdef"


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("RLX_CACHE", str(tmp_path / "cache"))
    warm = tmp_path / "cache" / "warm" / DIGEST
    warm.mkdir(parents=True)
    (warm / "config.yaml").write_text("algo: {_target_: a.tool_sft}\nenv: {_target_: b.Countdown}\nsteps: 30\n")
    (warm / "weights").write_bytes(b"x" * 2_000_000)
    evaluation = tmp_path / "cache" / "evaluations" / DIGEST
    evaluation.mkdir(parents=True)
    os.utime(evaluation, (0, 0))
    compiled = tmp_path / "cache" / "vllm" / ("a" * 16)
    compiled.mkdir(parents=True)
    os.utime(compiled, (1, 1))
    for other in ("warm/mine", "photos/0123456789abcdef", "models/holiday"):
        (tmp_path / "cache" / other).mkdir(parents=True)
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "cache" / "warm" / ("f" * 16)).symlink_to(tmp_path / "elsewhere")
    return tmp_path / "cache"


def test_what_rlx_keeps_is_listed_with_its_size_and_what_it_is(cache: Path) -> None:
    entries = read_cache()
    rows = cache_table(entries, cache).rows
    assert [row[0] for row in rows] == [
        "warm start: tool_sft on Countdown, 30 steps",
        "vLLM's configuration",
        "evaluation",
    ]
    assert rows[0][1] == "2.0 MB"
    assert [entry.kind for entry in older_than(entries, 1)] == ["vllm", "evaluations"]


def test_every_kind_of_entry_that_runs_make_is_listed() -> None:
    assert set(KINDS) == set(NAMES) == set(record.KINDS)


def test_clearing_removes_what_rlx_made_and_nothing_else(cache: Path) -> None:
    done = CliRunner().invoke(app, ["data", "cache", "clear"], input="n\n")
    assert done.exit_code == 1
    assert len(read_cache()) == 3
    done = CliRunner().invoke(app, ["data", "cache", "clear", "--older-than", "1", "--yes"])
    assert done.exit_code == 0, done.output
    assert [entry.kind for entry in read_cache()] == ["warm"]
    assert CliRunner().invoke(app, ["data", "cache", "clear", "--yes"]).exit_code == 0
    assert sorted(path.relative_to(cache).as_posix() for path in cache.glob("*/*")) == [
        "models/holiday",
        "photos/0123456789abcdef",
        "warm/ffffffffffffffff",
        "warm/mine",
    ]
    assert (cache.parent / "elsewhere").is_dir()


def test_a_warm_start_that_is_being_made_stays(cache: Path) -> None:
    with hold(cache / "warm" / DIGEST / ".lock"):
        gone, kept = clear(read_cache())
    assert [entry.kind for entry in gone] == ["vllm", "evaluations"]
    assert "is in use" in kept[0]
    assert (cache / "warm" / DIGEST / "weights").exists()
