"""`rlx analyze criticality`: what it measures of a run, what it keeps, and what it refuses."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rlx.lab.criticality import Inspection
from rlx.lab.criticality_command import measure_or_read, read_states, trained_model
from rlx.settings.compose import build_run
from rlx.settings.saved import load_tree
from tests.errors import assert_mistake

Command = Callable[..., "subprocess.CompletedProcess[str]"]


def test_a_run_is_measured_in_each_state_of_an_episode(rlx_here: Command, finished_run: Path, tmp_path: Path) -> None:
    words = ("analyze", "criticality", f"run={finished_run}", "--tasks", "2", "--draws", "2", "--json")
    picture = tmp_path / "picture.svg"
    done = rlx_here(*words, "--picture", str(picture), cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    found: Any = json.loads(done.stdout)
    assert found["figures"]["states"]["value"] == len(found["states"]) >= 2
    assert {state["turn"] for state in found["states"]} >= {0}
    assert picture.read_text().startswith("<?xml")
    again = rlx_here(*words, "--picture", str(picture), cwd=tmp_path)
    assert_mistake(again, "--picture")


def test_measured_states_are_kept_for_the_same_weights_alone(finished_run: Path, tmp_path: Path) -> None:
    run, file = build_run(load_tree(finished_run), finished_run), tmp_path / "states.json"
    small = Inspection(tasks=1, draws=2)
    states = measure_or_read(run, trained_model(run), file, small)
    told = json.loads(file.read_text())
    told["states"][0]["spread"] = 0.25
    file.write_text(json.dumps(told))
    assert measure_or_read(run, trained_model(run), file, small)[0].spread == 0.25
    assert len(states) == len(told["states"])
    assert read_states(file, "another key") is None
    file.write_text("{")
    assert measure_or_read(run, trained_model(run), file, small) == states


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        '{"key": 1}',
        '{"key": "k", "states": [{"task": "t", "turn": 0, "action": "a", "uncertainty": 0, "spread": "x", "mean": 0}]}',
        '{"key": "k", "states": [{"task": "t", "turn": 0, "action": "a", "uncertainty": NaN, "spread": 0, "mean": 0}]}',
        '{"key": "k", "states": [{"x": 1}]}',
        '{"key": "k", "states": 5}',
    ],
)
def test_a_damaged_file_of_states_is_none(text: str, tmp_path: Path) -> None:
    file = tmp_path / "states.json"
    file.write_text(text)
    assert read_states(file, "k") is None


@pytest.mark.parametrize(
    ("words", "key"),
    [
        ([], "run="),
        (["run=nowhere"], "nowhere"),
        (["run={folder}", "env.max_rounds=-1"], "env.max_rounds=-1"),
        (["run={folder}", "--picture", "nowhere/at/all.svg"], "--picture"),
    ],
)
def test_what_cannot_be_measured_is_one_line(
    words: list[str], key: str, rlx_here: Command, finished_run: Path, tmp_path: Path
) -> None:
    told = [word.format(folder=finished_run) for word in words]
    done = rlx_here("analyze", "criticality", *told, cwd=tmp_path)
    assert_mistake(done, key)
