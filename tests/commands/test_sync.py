"""`rlx sync`: every run is uploaded once, none is lost, and what fails is a line."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from rlx.commands.sync import Synced, WandbProgram, online, run_wandb, sync
from rlx.record.lock import hold

Command = Callable[..., "subprocess.CompletedProcess[str]"]


def record(run: Path, *parts: str) -> list[Path]:
    """Parts of a run that W&B recorded."""
    places = [run / "wandb" / f"offline-run-{part}-id" for part in parts]
    for place in places:
        place.mkdir(parents=True)
        (place / "run-id.wandb").write_bytes(b"record")
    return places


class Uploads:
    """An upload that W&B would do, and what it was called with."""

    def __init__(self, reason: str = "") -> None:
        self.reason = reason
        self.calls: list[str] = []

    def __call__(self, part: Path) -> str:
        self.calls.append(part.name)
        if not self.reason:
            (part / "run-id.wandb.synced").touch()
        return self.reason


def failures(found: list[Synced]) -> list[bool]:
    return [one.failed for one in found]


def test_the_last_part_of_a_run_is_uploaded_and_once(tmp_path: Path) -> None:
    record(tmp_path / "a" / "1", "20260102", "20260101")
    record(tmp_path / "b", "20260103")
    uploads = Uploads()
    assert failures(list(sync([tmp_path, tmp_path / "b"], uploads))) == [False, False]
    assert uploads.calls == ["offline-run-20260102-id", "offline-run-20260103-id"]
    again = list(sync([tmp_path], uploads))
    assert len(uploads.calls) == 2
    assert ["before" in one.text for one in again] == [True, True]


def test_what_a_resumed_run_recorded_since_is_uploaded(tmp_path: Path) -> None:
    uploads = Uploads()
    record(tmp_path, "20260101")
    list(sync([tmp_path], uploads))
    record(tmp_path, "20260102")
    list(sync([tmp_path], uploads))
    assert uploads.calls[1:] == ["offline-run-20260102-id"]


def test_an_old_part_does_not_replace_what_a_resumed_run_sent_online(tmp_path: Path) -> None:
    record(tmp_path, "20260101")
    online_part = tmp_path / "wandb" / "run-20260102-id"
    online_part.mkdir()
    (online_part / "run-id.wandb").write_bytes(b"record")
    uploads = Uploads()
    assert failures(list(sync([tmp_path], uploads))) == [False]
    assert uploads.calls == []


def test_a_running_run_is_left_for_later(tmp_path: Path) -> None:
    (part,) = record(tmp_path, "20260101")
    uploads = Uploads()
    with hold(tmp_path / ".lock"):
        (found,) = list(sync([tmp_path], uploads))
    assert (uploads.calls, found.failed) == ([], False)
    assert "running" in found.text
    assert (part / "run-id.wandb").read_bytes() == b"record"
    list(sync([tmp_path], uploads))
    assert len(uploads.calls) == 1


def test_an_upload_that_fails_is_one_line_and_the_others_go_on(tmp_path: Path) -> None:
    record(tmp_path / "a", "1")
    record(tmp_path / "b", "1")
    found = list(sync([tmp_path], Uploads("no\n\x1b[31mkey")))
    assert failures(found) == [True, True]
    for one in found:
        assert len(one.text.splitlines()) == 1
        assert "\x1b" not in one.text


def test_an_upload_that_claims_success_without_a_mark_has_failed(tmp_path: Path) -> None:
    record(tmp_path, "1")
    assert failures(list(sync([tmp_path], lambda part: ""))) == [True]


def test_a_folder_that_cannot_be_locked_is_a_line(tmp_path: Path) -> None:
    record(tmp_path, "1")
    (tmp_path / ".lock").mkdir()
    assert failures(list(sync([tmp_path], Uploads()))) == [True]


def test_wandbs_own_program_is_run_with_the_part_and_online(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    commands: list[list[str]] = []

    def run(command: list[str], env: dict[str, str], **_: object) -> subprocess.CompletedProcess[str]:
        commands.append(command[3:])
        assert "WANDB_MODE" not in env
        assert not list(Path(env["WANDB_DIR"]).iterdir())
        return subprocess.CompletedProcess(command, 0, "", "wandb: ERROR first\nError: no secret\n\n")

    monkeypatch.setenv("WANDB_MODE", "offline")
    monkeypatch.setenv("WANDB_API_KEY", "secret")
    monkeypatch.setattr(subprocess, "run", run)
    part = tmp_path / "wandb" / "-a;b"
    assert WandbProgram(refusal="")(part) == "no WANDB_API_KEY"
    assert commands == [["sync", str(part)]]
    assert online({"WANDB_MODE": "offline", "WANDB_API_KEY": "k"}) == {"WANDB_API_KEY": "k"}


def test_a_refusal_is_asked_for_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    commands: list[list[str]] = []

    def run(command: list[str], **_: object) -> subprocess.CompletedProcess[str]:
        commands.append(command[3:])
        return subprocess.CompletedProcess(command, 1, "", "wandb: x\nno luck\n")

    monkeypatch.setattr(subprocess, "run", run)
    record(tmp_path / "a", "1")
    record(tmp_path / "b", "1")
    found = list(sync([tmp_path]))
    assert commands == [["login", "--verify"]]
    assert failures(found) == [True, True]
    assert all(one.text.endswith("no luck") for one in found)


def test_an_upload_without_an_end_is_a_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def run(command: list[str], timeout: float, **_: object) -> None:
        raise subprocess.TimeoutExpired(command, timeout)

    monkeypatch.setattr(subprocess, "run", run)
    record(tmp_path, "1")
    assert failures(list(sync([tmp_path]))) == [True]


def test_the_command_names_a_folder_in_which_nothing_was_recorded(rlx_here: Command, tmp_path: Path) -> None:
    done = rlx_here("sync", str(tmp_path))
    assert (done.returncode, len(done.stdout.splitlines())) == (1, 1)
    assert tmp_path.name in done.stdout.replace("\n", "")


def test_wandb_knows_the_command() -> None:
    done = subprocess.run([sys.executable, "-m", "wandb", "sync", "--help"], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0
    assert "PATHS" in done.stdout


def test_code_and_settings_of_the_current_folder_are_not_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "wandb").mkdir()
    for name in ("__init__", "__main__"):
        (tmp_path / "wandb" / f"{name}.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')")
    monkeypatch.chdir(tmp_path)
    run_wandb("--version")
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize("place", ["wandb", "wandb/offline-run-1-id", "wandb/offline-run-1-id/files/config.yaml"])
def test_nothing_outside_the_run_is_uploaded(tmp_path: Path, place: str) -> None:
    run, outside = tmp_path / "run", tmp_path / "outside"
    record(run, "1")
    (run / "wandb" / "offline-run-1-id" / "files").mkdir()
    (run / "wandb" / "offline-run-1-id" / "files" / "config.yaml").touch()
    (run / place).rename(outside)
    (run / place).symlink_to(outside)
    uploads = Uploads()
    (found,) = list(sync([run], uploads))
    assert (found.failed, uploads.calls) == (True, [])
    assert place in found.text
