from __future__ import annotations

import errno
import os
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from rlx.base.regular import write_aside
from rlx.runs.folder import FolderError, claim_config, differences, digest_of, flatten, open_folder
from tests.errors import raises_naming


def test_a_file_is_whole_or_as_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "summary.json"
    write_aside(path, "before")

    def full(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    with raises_naming(OSError, "summary.json", "No space"):
        write_aside(path, "after")
    assert path.read_text() == "before"
    assert list(tmp_path.iterdir()) == [path]


def test_a_file_below_a_file_is_named_as_it_was_asked_for(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with raises_naming(OSError, tmp_path / "file" / "report.md"):
        write_aside(tmp_path / "file" / "report.md", "text")


def test_many_may_write_the_same_file_at_once(tmp_path: Path) -> None:
    path = tmp_path / "kept.jsonl"
    texts = [f"{writer}\n" * 1000 for writer in range(8)]
    together = threading.Barrier(len(texts))

    def write(text: str) -> None:
        for _ in range(20):
            together.wait(timeout=600)
            write_aside(path, text)
            assert path.read_text() in texts

    with ThreadPoolExecutor(len(texts)) as pool:
        list(pool.map(write, texts))
    assert list(tmp_path.iterdir()) == [path]


def test_what_a_kill_left_half_written_is_cleared(tmp_path: Path) -> None:
    (tmp_path / "trajectories").mkdir()
    (tmp_path / "config.yaml").write_text("seed: 0\n")
    halves = [tmp_path / ".summary.json.0a1b2c3d.part", tmp_path / "trajectories" / ".eval-8.jsonl.0a1b2c3d.part"]
    for half in halves:
        half.write_text("{")
    with open_folder(tmp_path, {"seed": 0}):
        assert not any(half.exists() for half in halves)


def test_configurations_differ_by_key_but_for_length_and_tracking() -> None:
    old: dict[str, Any] = {"algo": {"lr": 1, "betas": [0.9]}, "steps": 3, "track": {"mode": "auto"}}
    new = {"algo": {"lr": 2, "betas": [0.9]}, "steps": 9, "track": {"mode": "offline"}, "extra": True}
    assert differences(old, new) == ["algo.lr: 1 -> 2", "extra: None -> True"]
    assert flatten(old) == {"algo.lr": 1, "algo.betas": [0.9], "steps": 3, "track.mode": "auto"}


def test_a_recipe_is_not_part_of_a_run_but_what_was_taken_from_it_is() -> None:
    old = {"model": {"recipe": {"kl": 0.1}, "path": "nano"}, "algo": {"kl": 0.1}}
    new = {"model": {"recipe": {"kl": 0.2}, "path": "nano"}, "algo": {"kl": 0.2}}
    assert differences(old, new) == ["algo.kl: 0.1 -> 0.2"]
    assert differences({**old, "model": {"path": "nano"}}, old) == []


def test_a_digest_does_not_depend_on_the_order_of_keys() -> None:
    assert digest_of({"a": 1, "b": [2]}) == digest_of({"b": [2], "a": 1}) != digest_of({"a": 1, "b": [3]})


def test_a_second_run_is_refused_or_waits(tmp_path: Path) -> None:
    order: list[str] = []

    def second() -> None:
        with open_folder(tmp_path, {}, wait=True):
            order.append("second")

    with open_folder(tmp_path, {}):
        with raises_naming(FolderError, tmp_path, "in use"), open_folder(tmp_path, {}):
            pass
        waiting = threading.Thread(target=second)
        waiting.start()
        waiting.join(0.2)
        order.append("first")
    waiting.join()
    assert order == ["first", "second"]


NEW = {"algo": {"_target_": "rlx.types.Sampling", "top_k": 0, "top_p": 1.0}, "seed": 0}


@pytest.mark.parametrize(
    "changed",
    [
        {"algo": {"_target_": "rlx.types.Sampling", "top_k": 0, "top_p": 1.0, "temperature": 0.5}},
        {"algo": {"_target_": "rlx.types.Start", "top_k": 0, "top_p": 1.0, "repeat": 0}},
        {"algo": {"_target_": "no.such.target", "top_k": 0, "top_p": 1.0, "repeat": 0}},
        {"protocol": 1},
    ],
)
def test_a_changed_or_a_new_key_is_refused(changed: dict[str, Any], tmp_path: Path) -> None:
    claim_config(tmp_path, NEW)
    with raises_naming(FolderError, tmp_path, "another configuration"):
        claim_config(tmp_path, {**NEW, **changed})


@pytest.mark.parametrize("steps", [0, 3])
def test_fewer_steps_than_were_taken_are_refused_and_change_nothing(tmp_path: Path, steps: int) -> None:
    claim_config(tmp_path, {"steps": 5})
    (tmp_path / "checkpoints" / "step-4").mkdir(parents=True)
    before = (tmp_path / "config.yaml").read_bytes()
    with raises_naming(FolderError, f"steps={steps}", "steps=4"):
        claim_config(tmp_path, {"steps": steps})
    assert (tmp_path / "config.yaml").read_bytes() == before
    claim_config(tmp_path, {"steps": 4})
