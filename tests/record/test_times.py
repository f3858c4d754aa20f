"""Times beside trajectories: written by each rank, read as a whole, without trust."""

from __future__ import annotations

from pathlib import Path

import pytest

from rlx.runs.times import EpisodeTimes, TurnTimes, read_times, save_times, times_path


def times(task: str = "a", **fields: int) -> EpisodeTimes:
    turns = (TurnTimes(1.5, 0.25), TurnTimes(2.0, 0.0))
    return EpisodeTimes(task=task, queue=0.5, opening=0.125, turns=turns, **{"sample": 0, "repeat": 0} | fields)


def test_times_of_all_ranks_are_read_by_task_sample_and_repeat(tmp_path: Path) -> None:
    ranks = [times("a"), times("a", sample=1)], [times("b\u202e", repeat=2)]
    for rank, episodes in enumerate(ranks):
        save_times(times_path(tmp_path, 12, rank), episodes)
    save_times(times_path(tmp_path, 120, 0), [times("other step")])
    assert read_times(tmp_path, 12) == {
        ("a", 0, 0): times("a"),
        ("a", 1, 0): times("a", sample=1),
        ("b\u202e", 0, 2): times("b\u202e", repeat=2),
    }


@pytest.mark.parametrize(
    "line",
    [
        b"{}",
        b"[1]",
        b"\xff\xfe",
        b'{"task":"x","sample":-1,"repeat":0,"queue":0,"opening":0,"turns":[]}',
        b'{"task":"x","sample":0,"repeat":0,"queue":0,"opening":0,"turns":[[1]]}',
        b'{"task":"x","sample":0,"repeat":0,"queue":"<b>","opening":0,"turns":[]}',
        b'{"task":"x","sample":0,"repeat":0,"qu',
    ],
)
def test_lines_that_no_run_wrote_hide_no_other(tmp_path: Path, line: bytes) -> None:
    path = times_path(tmp_path, 1, 0)
    save_times(path, [times()])
    path.write_bytes(line + b"\n" + path.read_bytes())
    assert list(read_times(tmp_path, 1)) == [("a", 0, 0)]


def test_a_step_without_times_has_none(tmp_path: Path) -> None:
    assert read_times(tmp_path, 1) == {}
