"""The cache's folder: whether it can be written, and what it holds."""

from __future__ import annotations

from pathlib import Path

import pytest

from rlx.runs.cache import entries, refusal


def test_what_the_cache_holds_is_listed_with_its_size(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RLX_CACHE", str(tmp_path / "cache"))
    assert list(entries()) == []
    assert refusal() == ""
    (tmp_path / "cache" / "warm" / "abc" / "inner").mkdir(parents=True)
    (tmp_path / "cache" / "warm" / "abc" / "inner" / "file").write_bytes(bytes(7))
    (entry,) = entries()
    assert (entry.kind, entry.path.name) == ("warm", "abc")
    assert entry.num_bytes == 7


def test_a_cache_that_cannot_be_written_is_told_with_its_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("RLX_CACHE", str(tmp_path / "file"))
    assert refusal().startswith(str(tmp_path / "file" / "warm"))
