"""run.json of a checkpoint: written and read by one pair of functions."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from rlx.run.progress import RUN_FILE, Progress, ProgressError, read_progress, write_progress
from rlx.runs.provenance import Provenance
from rlx.runs.summary import Cost
from tests.errors import raises_naming

COST = {"tokens": 7, "tool_calls": 2, "seconds": 1.5, "device_hours": 0.25}
WHOLE = Progress(
    step=3,
    cost=Cost(tokens=7, tool_calls=2, seconds=1.5, device_hours=0.25),
    memory={"kl": 0.1},
    counts={"first": [1, 2]},
    provenance=Provenance(code={"rlx": "1f"}, packages={"torch": "2"}, interpreter="CPython 3.11", data="abc"),
    warnings=("step 3: every turn was invalid",),
    ahead=(4, 5),
)


@pytest.mark.parametrize("progress", [Progress(), WHOLE])
def test_a_progress_is_read_as_it_was_written(tmp_path: Path, progress: Progress) -> None:
    write_progress(tmp_path, progress)
    assert read_progress(tmp_path) == progress


@pytest.mark.parametrize("state", ["{", "[]", "null", {"step": 3}, {"cost": COST}, {"step": 3, "cost": COST}])
def test_a_file_that_is_no_progress_is_named(tmp_path: Path, state: Any) -> None:
    (tmp_path / RUN_FILE).write_text(state if isinstance(state, str) else json.dumps(state))
    with raises_naming(ProgressError, RUN_FILE):
        read_progress(tmp_path)
