"""YAML from anyone: plain values, bounded, from a regular file."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from rlx.base.regular import LARGEST
from rlx.runs.folder import FolderError, read_config
from rlx.runs.plain_yaml import PlainError, parse_small, read_plain
from rlx.runs.single_files import read_json
from tests.errors import raises_naming

BOMB = "a0: &a0 [x, x]\n" + "".join(f"a{n}: &a{n} [*a{n - 1}, *a{n - 1}]\n" for n in range(1, 40))


def test_what_is_plain_is_read(tmp_path: Path) -> None:
    (tmp_path / "one.yaml").write_text("a: {b: [1, 2.5, null, true, text]}\n")
    assert read_plain(tmp_path / "one.yaml") == {"a": {"b": [1, 2.5, None, True, "text"]}}


@pytest.mark.parametrize(
    "text",
    [
        BOMB,
        "a: &x 1\nb: *x\n",
        "[" * 200 + "]" * 200,
        "a: 2020-01-01",
        "a: !!binary aGk=",
        "a: !!set {x}",
        "1: a",
        "a: 1\na: 1",
        "a: [{b: 1, 'b': 2}]",
    ],
)
def test_what_is_not_plain_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "config.yaml").write_text(text)
    with pytest.raises(PlainError):
        read_plain(tmp_path / "config.yaml")
    with raises_naming(FolderError, "config.yaml"):
        read_config(tmp_path)


def test_a_key_that_a_mapping_has_twice_is_named_with_its_line_and_one_that_replaces_another_s_is_not() -> None:
    with raises_naming(PlainError, "seeds", "line 3"):
        parse_small("seeds: 1\nruns: {}\nseeds: 3\n")
    assert parse_small("x: &x {a: 1}\ny: {<<: *x, a: 2}\n")["y"] == {"a": 2}


@pytest.mark.parametrize("text", ["a: !!python/object/apply:os.system [true]", "{a", "9" * 5000, "\ud800"])
def test_what_is_no_yaml_is_one_line(tmp_path: Path, text: str) -> None:
    (tmp_path / "config.yaml").write_bytes(text.encode(errors="surrogatepass"))
    with raises_naming(FolderError, "config.yaml"):
        read_config(tmp_path)


def test_pipes_devices_and_huge_files_are_not_read(tmp_path: Path) -> None:
    for name in ("config.yaml", "summary.json"):
        os.mkfifo(tmp_path / name)
    with raises_naming(FolderError, tmp_path / "config.yaml", "regular"):
        read_config(tmp_path)
    assert read_json(tmp_path / "summary.json") == {}
    (tmp_path / "config.yaml").unlink()
    (tmp_path / "config.yaml").symlink_to("/dev/zero")
    with raises_naming(FolderError, tmp_path / "config.yaml", "regular"):
        read_config(tmp_path)
    (tmp_path / "config.yaml").unlink()
    with open(tmp_path / "config.yaml", "wb") as file:
        file.truncate(LARGEST + 1)
    with raises_naming(FolderError, tmp_path / "config.yaml", "bytes"):
        read_config(tmp_path)
