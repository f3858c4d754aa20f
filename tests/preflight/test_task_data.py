"""Data of a task that no file could hold are refused before a run."""

from __future__ import annotations

import datetime
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rlx.plan.tasks import check_data
from rlx.run.curriculum import TaskError
from rlx.types import Task, Text
from tests.loops import for_each


@for_each("value", [datetime.date(2024, 2, 29), float("nan"), {1, 2}, b"bytes"])
def test_data_that_are_no_json_are_refused_with_the_task(value: Any) -> None:
    with pytest.raises(TaskError) as error:
        check_data(Task(id="days-1", prompt=(Text("?"),), data={"from": value}))
    assert "days-1" in str(error.value)
    assert "\n" not in str(error.value)


def test_the_first_tasks_of_a_run_are_checked(
    small_run: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from rlx.env.countdown.countdown import Countdown
    from rlx.plan.prospect import Prospect
    from rlx.plan.tasks import check_tasks

    tasks = Countdown.tasks

    def dated(self: Countdown, split: str, seed: int) -> Any:
        return (
            Task(id=task.id, prompt=task.prompt, data={**task.data, "day": datetime.date(2024, 2, 29)})
            for task in tasks(self, split, seed)
        )

    monkeypatch.setattr(Countdown, "tasks", dated)
    with pytest.raises(TaskError, match="date"):
        check_tasks(Prospect(run=small_run(tmp_path)))
