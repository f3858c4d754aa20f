"""What a result depends on of code: rlx's own, and the user's modules with all that they import in their project."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from rlx.record import sources
from rlx.record.sources import code_digest, follow

TOY = {"env": {"_target_": "toy_pack.toy.Toy"}}


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A package whose module imports one beside it, a package of its own project, and an installed one."""
    package = tmp_path / "toy_pack"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "toy.py").write_text("import yaml\nfrom .reward import score\nclass Toy: ...\n")
    (package / "reward.py").write_text("def score(x):\n    from toy_helper import late\n    return late(x)\n")
    (tmp_path / "toy_helper.py").write_text("late = abs\n")
    (tmp_path / "unused.py").write_text("raise SystemExit\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    return tmp_path


@pytest.mark.parametrize("edited", ["toy_pack/toy.py", "toy_pack/reward.py", "toy_pack/__init__.py", "toy_helper.py"])
def test_every_file_that_a_target_reaches_counts(project: Path, edited: str) -> None:
    before = code_digest(TOY)
    assert code_digest(TOY) == before
    with open(project / edited, "a") as file:
        file.write("# changed\n")
    assert code_digest(TOY) != before
    assert not {"toy_pack", "toy_helper"} & sys.modules.keys(), "nothing is imported"


def test_what_it_does_not_reach_does_not_count(project: Path) -> None:
    before = code_digest(TOY)
    (project / "unused.py").write_text("x = 1\n")
    assert code_digest(TOY) == before


def test_an_installed_package_counts_by_its_version(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files, packages = follow(["toy_pack.toy.Toy"])
    assert set(files) == {"toy_pack", "toy_pack.toy", "toy_pack.reward", "toy_helper"}
    assert packages == {"yaml"}
    before = code_digest(TOY)
    monkeypatch.setattr(sources, "version_of", lambda package: "9.9")
    assert code_digest(TOY) != before


def test_rlx_itself_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    before = code_digest({})
    monkeypatch.setattr(sources, "package_digest", lambda: "other")
    assert code_digest({}) != before
