"""What an end means: which may be tried again, and how often."""

from __future__ import annotations

import signal
from pathlib import Path

from rlx.runs.attempts import (
    Attempt,
    Ended,
    Kind,
    kind_of,
    may_go_on,
    newest_step,
    read_attempts,
    read_end,
    record_attempt,
    record_end,
    record_job,
)
from rlx.runs.folder import LOGS
from rlx.runs.single_files import last_lines
from tests.loops import for_each


def attempt(kind: Kind, before: int, after: int, is_preempted: bool = False) -> Attempt:
    return Attempt(kind=kind, job="7", before=before, after=after, is_preempted=is_preempted)


@for_each(
    "code, first, kind",
    [
        (0, None, "finished"),
        (0, 143, "stopped"),
        (1, -signal.SIGUSR2, "stopped"),
        (137, -signal.SIGKILL, "lost"),
        (139, -signal.SIGSEGV, "lost"),
        (75, 75, "lost"),
        (1, None, "lost"),
        (137, 1, "failed"),
        (130, 130, "failed"),
    ],
)
def test_the_rank_that_ended_first_tells_what_happened(code: int, first: int | None, kind: str) -> None:
    assert kind_of(code, None if first is None else Ended(rank=1, code=first)) == kind


def test_a_failure_is_not_tried_again_and_what_was_lost_is() -> None:
    assert may_go_on([attempt("lost", 0, 0)], limit=3)
    assert may_go_on([attempt("stopped", 0, 4)], limit=1)
    assert not may_go_on([attempt("failed", 0, 4)], limit=3)
    assert not may_go_on([attempt("finished", 0, 4)], limit=3)
    assert not may_go_on([], limit=3)


def test_attempts_that_come_no_further_are_bounded() -> None:
    in_vain = attempt("lost", 4, 4)
    assert may_go_on([attempt("lost", 0, 4), in_vain, in_vain], limit=3)
    assert not may_go_on([attempt("lost", 0, 4), in_vain, in_vain, in_vain], limit=3)
    assert may_go_on([in_vain, in_vain, attempt("stopped", 4, 6), in_vain, in_vain], limit=3)


def test_a_preempted_attempt_does_not_count() -> None:
    assert may_go_on([attempt("stopped", 4, 4, is_preempted=True)] * 9, limit=1)


def test_an_old_failure_that_was_mended_does_not_count() -> None:
    assert may_go_on([attempt("failed", 4, 4), attempt("lost", 4, 4)], limit=2)


def test_the_first_end_stands(tmp_path: Path) -> None:
    (tmp_path / LOGS).mkdir()
    assert read_end(tmp_path) is None
    record_end(tmp_path, Ended(rank=1, code=-9))
    record_end(tmp_path, Ended(rank=0, code=75))
    assert read_end(tmp_path) == Ended(rank=1, code=-9)
    assert str(read_end(tmp_path)) == "rank 1 ended by SIGKILL"


def test_attempts_read_back_but_for_a_torn_line(tmp_path: Path) -> None:
    (tmp_path / LOGS).mkdir()
    told = [attempt("lost", 0, 2), Attempt(kind="lost", job=None, before=2, after=2, ended=Ended(rank=1, code=-9))]
    for each in told:
        record_attempt(tmp_path, each)
    with open(tmp_path / LOGS / "attempts.jsonl", "a") as file:
        file.write('{"kind": "lo')
    assert read_attempts(tmp_path) == told


def test_the_newest_checkpoint_counts_by_number(tmp_path: Path) -> None:
    assert newest_step(tmp_path) == 0
    for name in ("step-2", "step-10", ".step-11.partial", "step-x"):
        (tmp_path / "checkpoints" / name).mkdir(parents=True)
    assert newest_step(tmp_path) == 10


def test_the_end_of_a_long_log(tmp_path: Path) -> None:
    (tmp_path / "log").write_text("".join(f"line {i}\n" for i in range(50_000)))
    assert last_lines(tmp_path / "log", 2) == ["line 49998", "line 49999"]
    assert last_lines(tmp_path / "none") == []


def test_a_job_is_recorded_before_its_run_exists(tmp_path: Path) -> None:
    record_job(tmp_path / "new", "7_1", "seed=1", 4)
    assert '"7_1"' in (tmp_path / "new" / LOGS / "job.json").read_text()
