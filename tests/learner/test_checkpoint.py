from __future__ import annotations

import errno
import json
import os
import shutil

import pytest

from rlx.learner import checkpoint
from rlx.learner.checkpoint import CheckpointError, newest_good, write_checkpoint
from tests.errors import raises_naming


def filled(text):
    def write(folder):
        (folder / "model.safetensors").write_text(text)
        (folder / "tokenizer").mkdir()
        (folder / "tokenizer" / "vocab.json").write_text("{}")

    return write


@pytest.fixture
def folder(tmp_path):
    for step in (10, 20, 30):
        write_checkpoint(tmp_path / "checkpoints", step, filled(f"weights {step}"), keep=3)
    return tmp_path / "checkpoints"


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def test_the_newest_is_used(folder):
    assert newest_good(folder) == (folder / "step-30", [])
    assert (folder / "step-30" / "model.safetensors").read_text() == "weights 30"


def test_every_file_that_is_read_again_is_told(tmp_path):
    told = []
    write_checkpoint(tmp_path, 10, filled("x"), progress=lambda: told.append(1))
    num_files, num_folders = 2, 2
    assert len(told) == num_files + (num_files + 1 + num_folders)
    told.clear()
    assert newest_good(tmp_path, lambda: told.append(1)) == (tmp_path / "step-10", [])
    assert len(told) == num_files


def test_an_empty_or_absent_folder_has_none(tmp_path):
    assert newest_good(tmp_path / "no") == (None, [])


def test_steps_are_numbers_not_words(folder):
    write_checkpoint(folder, 100, filled("x"), keep=4)
    (folder / "step-best").mkdir()
    assert newest_good(folder)[0] == folder / "step-100"


def test_only_the_last_are_kept(folder):
    write_checkpoint(folder, 40, filled("x"), keep=2)
    assert names(folder) == ["index.json", "step-30", "step-40"]


@pytest.mark.parametrize(
    ("harm", "said"),
    [
        (lambda step: (step / "model.safetensors").write_text("weights 3"), "model.safetensors has 9 bytes of 10"),
        (lambda step: (step / "model.safetensors").write_text("weights 31"), "model.safetensors was altered"),
        (lambda step: (step / "tokenizer" / "vocab.json").unlink(), "tokenizer/vocab.json is missing"),
        (lambda step: (step / "checksums.json").unlink(), "checksums.json is missing or unreadable"),
        (lambda step: (step / "checksums.json").write_text('{"a": '), "checksums.json is missing or unreadable"),
        (lambda step: (step / "checksums.json").write_text("[1]"), "checksums.json is missing or unreadable"),
        (shutil.rmtree, "it is missing"),
    ],
)
def test_a_harmed_one_is_named_and_the_one_before_is_used(folder, harm, said):
    harm(folder / "step-30")
    good, warnings = newest_good(folder)
    assert good == folder / "step-20"
    assert warnings == [f"checkpoint {folder / 'step-30'} is skipped: {said}"]


def test_a_manifest_does_not_lead_outside(folder):
    secret = folder.parent / "secret"
    secret.write_text("x")
    manifest = folder / "step-30" / "checksums.json"
    manifest.write_text(json.dumps({"../../secret": checkpoint.digest(secret)}))
    assert newest_good(folder)[1] == [f"checkpoint {folder / 'step-30'} is skipped: ../../secret is missing"]


def full(*_):
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "model.safetensors")


@pytest.mark.parametrize("where", ["write", "put", "flush_tree", "replace_folder"])
def test_a_full_disk_names_the_path_and_leaves_the_last_one_good(folder, monkeypatch, where):
    if where == "write":
        write = full
    else:
        write = filled("new")
        monkeypatch.setattr(checkpoint, where, full)
    with raises_naming(CheckpointError, "step-40", "No space", "step-30"):
        write_checkpoint(folder, 40, write)
    assert newest_good(folder) == (folder / "step-30", [])
    assert names(folder) == ["index.json", "step-10", "step-20", "step-30"]


def test_the_weights_writers_own_error_counts_too(folder, monkeypatch):
    import torch
    from safetensors.torch import save_file

    with raises_naming(CheckpointError, "step-40"):
        write_checkpoint(folder, 40, lambda aside: save_file({"x": torch.zeros(1)}, aside / "no" / "x.safetensors"))


def test_a_killed_write_is_swept_away(folder):
    (folder / ".step-40.partial").mkdir()
    (folder / ".step-40.partial" / "model.safetensors").write_text("half")
    assert newest_good(folder) == (folder / "step-30", [])
    write_checkpoint(folder, 40, filled("whole"), keep=9)
    assert (folder / "step-40" / "model.safetensors").read_text() == "whole"
    assert not [name for name in names(folder) if name.startswith(".")]


def test_the_same_step_is_replaced(folder):
    write_checkpoint(folder, 30, filled("again"), keep=3)
    assert (folder / "step-30" / "model.safetensors").read_text() == "again"
    assert newest_good(folder) == (folder / "step-30", [])


def test_one_moved_out_of_the_way_when_killed_comes_back(folder):
    (folder / "step-30").rename(folder / ".step-30.old")
    assert newest_good(folder)[0] == folder / "step-20"
    write_checkpoint(folder, 40, filled("x"), keep=9)
    assert (folder / "step-30").is_dir()
