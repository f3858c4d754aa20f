"""Any line of a file at once."""

from __future__ import annotations

import os
import tracemalloc
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rlx.record import index
from rlx.record.index import NoLineError, index_path, line_at, line_starts, write_index
from tests.errors import raises_naming

LINES = st.lists(st.binary(max_size=9).map(lambda raw: raw.replace(b"\n", b"") + b"\n"), min_size=1, max_size=20)


@settings(max_examples=60)
@given(LINES, st.integers(1, 7), st.binary(max_size=3).map(lambda raw: raw.replace(b"\n", b"")))
def test_lines_begin_where_they_do_whatever_is_read_at_once(lines: list[bytes], block: int, torn: bytes) -> None:
    import tempfile

    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr(index, "BLOCK", block)
        path = Path(folder) / "x"
        path.write_bytes(b"".join(lines) + torn)
        whole = [*lines, *([torn] if torn else [])]
        assert [start for starts in line_starts(path) for start in starts] == [
            sum(map(len, whole[:number])) for number in range(len(whole))
        ]
        assert [line_at(path, number) for number in range(1, len(whole) + 1)] == whole


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "x.jsonl"
    path.write_bytes(b"one\ntwo\nthree\n")
    return path


def test_a_line_that_is_not_there_is_refused_with_how_many_there_are(file: Path) -> None:
    with raises_naming(NoLineError, "x.jsonl", "line 4", "has 3"):
        line_at(file, 4)


@pytest.mark.parametrize("harm", ["missing", "stale", "torn", "garbage", "elsewhere", "folder"])
def test_an_index_that_is_not_of_the_file_is_made_again(file: Path, harm: str) -> None:
    write_index(file)
    good = index_path(file).read_bytes()
    if harm == "missing":
        index_path(file).unlink()
    elif harm == "stale":
        file.write_bytes(b"a\nlonger line\nthird\n")
        os.utime(file, ns=(1, 1))
    elif harm == "torn":
        index_path(file).write_bytes(good[:-4])
    elif harm == "garbage":
        index_path(file).write_bytes(bytes(range(48)))
    elif harm == "elsewhere":
        index_path(file).write_bytes(good[:-8] + (5).to_bytes(8, "little"))
    else:
        index_path(file).unlink()
        index_path(file).mkdir()
    assert line_at(file, 3) == (b"third\n" if harm == "stale" else b"three\n")
    if harm not in ("stale", "folder"):
        assert index_path(file).read_bytes() == good
    assert [path for path in file.parent.iterdir() if path.name.endswith(".part")] == []


def test_a_line_far_down_is_read_without_reading_the_rest(tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    with open(path, "wb") as out:
        for number in range(1, 100_002):
            out.write(b"%d %s\n" % (number, b"x" * 300))
    write_index(path)
    tracemalloc.start()
    assert line_at(path, 100_000).startswith(b"100000 ")
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 100_000
