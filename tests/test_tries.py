"""What scripts/tries.py prints of the tries of a problem."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from rlx.base.limits import MistakeError
from rlx.types import Trajectory
from scripts.tries import describe, main
from tests.view.conftest import episode, turn, write


def asked(numbers: object, *calls: str, success: bool) -> Trajectory:
    one = episode("a", 0, *(turn(call, kind="call") for call in calls), turn("an answer"), success=success)
    return replace(one, task=replace(one.task, data={"numbers": numbers, "target": 6}))


def store(folder: Path, *episodes: Trajectory) -> str:
    for stem in ("start-8", "eval-8"):
        write(folder / "trajectories" / f"{stem}.jsonl", episodes)
    return str(folder)


def test_tries_are_counted_by_problem_and_shapes_over_all() -> None:
    assert describe([["(1+2)*3", "(4+2)*3", "(1+2)*3"], ["9-8"]]) == ["2.0", "1.5", "75.0%", "(N+N)*N 75.0%"]


def test_who_tries_nothing_has_no_shape() -> None:
    assert describe([[], []]) == ["0", "0", "-", "-"]


def test_a_shape_that_a_model_wrote_reaches_the_terminal_escaped() -> None:
    assert "\x1b" not in describe([["\x1b[2J"]])[3]


def test_blanks_and_answers_are_no_part_of_tries(tmp_path: Path) -> None:
    run = store(tmp_path, asked([1, 2, 3], "1 + 2 - 3", "1+2-3", success=True), asked([1, 2, 3], success=False))
    assert main([run]).count("| 2.0 | 1.0 | 0.0% | N+N-N 100.0% | 3: 50.0% |") == 2


@pytest.mark.parametrize("numbers", [None, 3, "12"])
def test_episodes_of_another_environment_are_refused_by_their_run(numbers: object, tmp_path: Path) -> None:
    with pytest.raises(MistakeError, match=tmp_path.name):
        main([store(tmp_path, asked(numbers, success=False))])


def test_no_folder_is_refused() -> None:
    with pytest.raises(MistakeError):
        main([])


def test_a_task_with_numbers_and_no_target_is_of_another_environment(tmp_path: Path) -> None:
    one = asked([1, 2], success=False)
    with pytest.raises(MistakeError, match=tmp_path.name):
        main([store(tmp_path, replace(one, task=replace(one.task, data={"numbers": [1, 2]})))])
