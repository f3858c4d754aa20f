from __future__ import annotations

import json
import math
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from rlx.runs.provenance import Provenance
from rlx.runs.summary import (
    Cost,
    Estimate,
    Git,
    Summary,
    SummaryError,
    code_state,
    git_here,
    read_summary,
    write_summary,
)
from tests.errors import raises_naming

SUMMARY = Summary(
    status="finished",
    metrics={"eval/pass@16": Estimate(value=0.86, low=0.76, high=0.94)},
    seed=3,
    provenance=Provenance(code={"rlx": "1f"}, packages={"rlx": "0.1.0"}, interpreter="CPython 3.11"),
    git=Git(commit="abc", dirty=True),
    cost=Cost(tokens=5, tool_calls=2, seconds=1.5, device_hours=0.25),
    steps=24,
    policy="checkpoints/step-24",
    evaluate={"num_tasks": 50},
    notes=("step-25 was altered",),
    warnings=("step 3: every turn was invalid",),
)


def test_the_file_has_the_words_other_programs_read(tmp_path: Path) -> None:
    write_summary(tmp_path / "summary.json", SUMMARY)
    assert json.loads((tmp_path / "summary.json").read_text()) == {
        "status": "finished",
        "metrics": {"eval/pass@16": {"value": 0.86, "low": 0.76, "high": 0.94}},
        "seed": 3,
        "provenance": {"code": {"rlx": "1f"}, "packages": {"rlx": "0.1.0"}, "interpreter": "CPython 3.11", "data": ""},
        "git": {"commit": "abc", "dirty": True},
        "cost": {"tokens": 5, "tool_calls": 2, "seconds": 1.5, "device_hours": 0.25},
        "synchronous": True,
        "reproducible": True,
        "steps": 24,
        "policy": "checkpoints/step-24",
        "evaluate": {"num_tasks": 50},
        "agents": {},
        "ended": "",
        "notes": ["step-25 was altered"],
        "warnings": ["step 3: every turn was invalid"],
        "reward_range": None,
    }
    assert [child.name for child in tmp_path.iterdir()] == ["summary.json"]


@pytest.mark.parametrize("summary", [SUMMARY, Summary(status="failed", seed=0)])
def test_it_reads_back_as_it_was(tmp_path: Path, summary: Summary) -> None:
    write_summary(tmp_path / "s", summary)
    assert read_summary(tmp_path / "s") == summary


def test_what_is_not_finite_is_null_and_reads_as_nan(tmp_path: Path) -> None:
    odd = Summary(status="failed", seed=0, metrics={"loss": Estimate(value=math.nan, low=-math.inf, high=1.0)})
    write_summary(tmp_path / "s", odd)
    figure = read_summary(tmp_path / "s").metrics["loss"]
    assert math.isnan(figure.value)
    assert math.isnan(figure.low)
    assert figure.high == 1.0


def changed(**changes: Any) -> bytes:
    whole = {"status": "finished", "metrics": {}, "seed": 0, "git": None}
    whole["provenance"] = {"code": {}, "packages": {}, "interpreter": "", "data": ""}
    whole["cost"] = {"tokens": 0, "tool_calls": 0, "seconds": 0.0, "device_hours": 0.0}
    return json.dumps(whole | changes).encode()


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"[]",
        b"\xff",
        b"[" * 100_000,
        changed(status="won"),
        changed(metrics=[]),
        changed(metrics={"x": {"value": "0", "low": 0, "high": 0}}),
        changed(metrics={"x": {"value": 0}}),
        changed(metrics={"x": 1.0}),
        changed(metrics={"x": {"value": math.nan, "low": 0, "high": 0}}),
        changed(seed="a"),
        changed(metrics={"x": {"value": 10**400, "low": 0, "high": 0}}),
        changed(cost={}),
        changed(cost={"tokens": 1, "tool_calls": 1, "seconds": None, "device_hours": 0.0}),
        changed(git="abc"),
        changed(provenance=None),
        changed(provenance={"code": [], "packages": {}, "interpreter": "", "data": ""}),
    ],
)
def test_a_hostile_summary_is_one_line_that_names_the_file(tmp_path: Path, raw: bytes) -> None:
    path = tmp_path / "summary.json"
    path.write_bytes(raw)
    with raises_naming(SummaryError, path, "summary"):
        read_summary(path)


def test_a_missing_summary_says_why_it_may_be(tmp_path: Path) -> None:
    with raises_naming(SummaryError, tmp_path / "summary.json", "exist"):
        read_summary(tmp_path / "summary.json")


def test_costs_add_up() -> None:
    once = Cost(tokens=1, tool_calls=2, seconds=3.0, device_hours=0.5)
    assert once + once == Cost(tokens=2, tool_calls=4, seconds=6.0, device_hours=1.0)


def test_git_state_is_the_commit_and_whether_the_tree_changed(tmp_path: Path) -> None:
    assert git_here(tmp_path) is None

    def git(*words: str) -> str:
        identity = ("-c", "user.name=a", "-c", "user.email=a@b.c")
        done = subprocess.run(
            ["git", "-C", str(tmp_path), *identity, *words], capture_output=True, check=True, text=True
        )
        return done.stdout.strip()

    git("init", "-q")
    assert git_here(tmp_path) is None
    (tmp_path / "x").write_text("1")
    git("add", "x")
    git("commit", "-qm", "one", "--no-verify")
    assert git_here(tmp_path) == Git(commit=git("rev-parse", "HEAD"), dirty=False)
    (tmp_path / "x").write_text("2")
    found = git_here(tmp_path)
    assert found is not None
    assert found.dirty


def test_git_starts_nothing_that_a_downloaded_folder_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "download"
    git = ["git", "-C", str(folder), "-c", "user.name=a", "-c", "user.email=a@b"]
    folder.mkdir()
    for words in (["init", "-q"], ["commit", "-q", "--allow-empty", "-m", "x"]):
        subprocess.run([*git, *words], check=True)
    subprocess.run([*git, "config", "core.fsmonitor", f"touch {tmp_path}/sprung; false"], check=True)
    monkeypatch.chdir(folder)
    monkeypatch.delenv("PYTHONPATH", raising=False)
    assert "current" not in code_state()
    assert not (tmp_path / "sprung").exists()
    monkeypatch.syspath_prepend(str(tmp_path / "other"))
    monkeypatch.setattr(sys, "path", [sys.path[0], str(folder)])
    assert code_state()["current"]["commit"]
