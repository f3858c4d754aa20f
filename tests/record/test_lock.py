from __future__ import annotations

import fcntl
import json
import os
import socket
import time
from pathlib import Path

import pytest

from rlx.runs import lock
from rlx.runs.lock import HeldError, hold, read_holder
from tests.errors import raises_naming


def write_holder(path: Path, age: float = 0.0, **holder: object) -> None:
    path.write_text(json.dumps({"host": "elsewhere", "pid": 7, "job": "12", **holder}))
    then = time.time() - age
    os.utime(path, (then, then))


def test_the_holder_is_named_and_forgotten(tmp_path: Path) -> None:
    path = tmp_path / ".lock"
    with hold(path):
        assert read_holder(path)["pid"] == os.getpid()
        with raises_naming(HeldError, f"process {os.getpid()}", socket.gethostname()), hold(path):
            pass
        assert read_holder(path)["pid"] == os.getpid()
    assert read_holder(path) == {}


def test_a_fresh_holder_on_another_machine_keeps_us_off_where_locks_do_not(tmp_path: Path) -> None:
    path = tmp_path / ".lock"
    write_holder(path)
    with raises_naming(HeldError, "process 7", "elsewhere", "job 12"), hold(path):
        pass
    with hold(tmp_path / "other"):
        pass


@pytest.mark.parametrize("holder", [{"age": 1000.0}, {"host": socket.gethostname()}, {"job": "99"}])
def test_a_dead_holder_is_passed_over(tmp_path: Path, holder: dict, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLURM_JOB_ID", "99")
    path = tmp_path / ".lock"
    write_holder(path, **holder)
    with hold(path):
        assert read_holder(path)["job"] == "99"


@pytest.mark.parametrize(
    "text", ["", "{", "[]", '{"host": "a"}', '{"host": "a", "pid": "b", "job": ""}', "[" * 100_000]
)
def test_a_lock_that_cannot_be_read_is_nobodys(tmp_path: Path, text: str) -> None:
    path = tmp_path / ".lock"
    path.write_text(text)
    with hold(path):
        assert read_holder(path)["pid"] == os.getpid()


def test_a_file_system_without_locks_is_no_hindrance(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise OSError(lock.UNKNOWN[0], "No locks available")

    monkeypatch.setattr(fcntl, "flock", refuse)
    with hold(tmp_path / ".lock"):
        pass


def test_a_holder_keeps_its_lock_fresh(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lock, "TOUCH", 0.01)
    path = tmp_path / ".lock"
    with hold(path):
        os.utime(path, (1, 1))
        while path.stat().st_mtime == 1:
            time.sleep(0.01)


def test_a_link_in_the_locks_place_is_refused_and_its_file_stays(tmp_path: Path) -> None:
    (tmp_path / "mine").write_text("mine")
    (tmp_path / ".lock").symlink_to(tmp_path / "mine")
    with raises_naming(OSError, tmp_path / ".lock"), hold(tmp_path / ".lock"):
        pass
    assert (tmp_path / "mine").read_text() == "mine"
