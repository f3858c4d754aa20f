from __future__ import annotations

import json
import threading
from pathlib import Path

import pytest

from rlx.hardware.pulse import Pulse, Seen, describe, hanging, look, rank_path, watch
from rlx.hardware.ranks import ALONE, EXIT_RANK_LOST
from tests.loops import for_each


def seen(**ranks: tuple[float, float]) -> dict[int, Seen]:
    """r0=(number, changed), …; a negative number rests; half a phase further is one call of the others more."""
    return {
        int(name[1:]): Seen({"number": int(abs(number)), "calls": abs(number) % 1, "resting": number < 0}, changed)
        for name, (number, changed) in ranks.items()
    }


@for_each(
    "ranks, found",
    [
        ({"r0": (3, 0.0)}, 0),
        ({"r0": (3, 95.0)}, None),
        ({"r0": (4, 0.0), "r1": (3, 0.0)}, 1),  # rank 0 waits for rank 1
        ({"r0": (4, 0.0), "r1": (3, 95.0)}, None),  # which is slow, but stirs
        ({"r0": (3, 10.0), "r1": (3, 0.0), "r2": (3, 95.0)}, 1),  # of those behind, the one longest still
        ({"r0": (3.5, 0.0), "r1": (3, 0.0)}, 1),  # rank 0 has called, and waits for an answer
        ({"r0": (-3, 0.0), "r1": (-3, 0.0)}, None),
        ({}, None),
    ],
)
def test_the_rank_furthest_behind_is_the_one_that_hangs(ranks: dict, found: int | None) -> None:
    assert hanging(seen(**ranks), now=100.0, limit=10.0) == found


def test_what_counts_is_when_a_change_was_seen_here(tmp_path: Path) -> None:
    (tmp_path / "ranks").mkdir()
    pulse = Pulse(path=rank_path(tmp_path, 0))
    pulse.at("rollout of step 1")
    first = look(tmp_path, 2, {}, 1.0)
    assert first.keys() == {0}
    assert first[0].state["phase"] == "rollout of step 1"
    assert look(tmp_path, 2, first, 2.0)[0].changed == 1.0
    pulse.beat()
    pulse.write()
    assert look(tmp_path, 2, first, 3.0)[0].changed == 3.0
    rank_path(tmp_path, 0).write_text("{")
    assert look(tmp_path, 2, first, 4.0) == first


def test_a_run_that_hangs_says_so_and_ends(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    codes: list[int] = []
    ended = threading.Event()

    def end(code: int) -> None:
        codes.append(code)
        ended.set()

    with watch(tmp_path, ALONE, 0.002, end) as pulse:
        pulse.at("update of step 7")
        assert ended.wait(20)
    assert codes[0] == EXIT_RANK_LOST
    said = capsys.readouterr().err.splitlines()[0]
    assert said.startswith("rlx: rank 0 (host ")
    assert "hangs: in 'update of step 7' since" in said
    assert "hardware.step_minutes=0.002" in said
    assert "test_pulse.py" in rank_path(tmp_path, 0).with_suffix(".stacks").read_text()


def test_a_run_that_stirs_or_rests_goes_on(tmp_path: Path) -> None:
    codes: list[int] = []
    with watch(tmp_path, ALONE, 0.002, codes.append) as pulse:
        pulse.at("waiting", resting=True)
        threading.Event().wait(0.5)
    assert not codes
    assert json.loads(rank_path(tmp_path, 0).read_text())["resting"] is True


def test_the_line_names_who_and_where() -> None:
    said = {"host": "n1", "pid": 5, "phase": "rollout of step 2", "since": "12:00"}
    assert describe(3, said, 60.0).startswith("rank 3 (host n1, process 5) hangs: in 'rollout of step 2' since 12:00")
