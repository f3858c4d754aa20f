"""What a result depends on of code: rlx's own, and the user's modules with all that they import in their project."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from rlx.record import provenance
from rlx.record.provenance import (
    Provenance,
    changes,
    conflicts,
    follow,
    from_record,
    provenance_of,
    to_record,
    versions_of,
)

TOY = {"env": {"_target_": "toy_pack.toy.Toy"}}


def digest(config: Any) -> str:
    return provenance_of(config).digest


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
    before = digest(TOY)
    assert digest(TOY) == before
    with open(project / edited, "a") as file:
        file.write("# changed\n")
    assert digest(TOY) != before
    assert not {"toy_pack", "toy_helper"} & sys.modules.keys(), "nothing is imported"


def test_what_it_does_not_reach_does_not_count(project: Path) -> None:
    before = digest(TOY)
    (project / "unused.py").write_text("x = 1\n")
    assert digest(TOY) == before


def test_an_installed_package_counts_by_its_version(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files, packages = follow(["toy_pack.toy.Toy"])
    assert set(files) == {"toy_pack", "toy_pack.toy", "toy_pack.reward", "toy_helper"}
    assert packages == {"yaml"}
    before = digest(TOY)
    assert provenance_of(TOY).packages["pyyaml"], "the module yaml is part of the distribution PyYAML"
    monkeypatch.setattr(provenance, "version_of", lambda package: "9.9")
    assert digest(TOY) != before


def test_rlx_itself_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    before = digest({})
    monkeypatch.setattr(provenance, "package_digest", lambda: "other")
    assert digest({}) != before


@pytest.mark.parametrize(
    ("target", "package"),
    [
        ("rlx.env.questions.reasoning_gym.ReasoningGym", "reasoning-gym"),
        ("rlx.env.babyai.babyai.BabyAI", "minigrid"),
        ("rlx.env.countdown.countdown.Countdown", "pydantic-monty"),
        ("rlx.env.questions.math.MathProblems", "math-verify"),
        ("rlx.env.search.search_qa.SearchQA", "bm25s"),
    ],
)
def test_packages_that_the_modules_of_rlx_import_count(
    target: str, package: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = {"env": {"_target_": target}}
    before, version_of = provenance_of(config), provenance.version_of
    assert before.packages.get(package) or not version_of(package)
    monkeypatch.setattr(provenance, "version_of", lambda name: "9.9" if name == package else version_of(name))
    after = provenance_of(config)
    assert after.digest != before.digest
    assert list(changes(before, after)) == [f"{package} {before.packages.get(package, 'none')} -> 9.9"]


def test_a_package_that_another_package_requires_counts() -> None:
    assert "mpmath" in versions_of(["sympy"])


def test_modules_that_a_call_names_count(project: Path) -> None:
    (project / "toy_pack" / "toy.py").write_text(
        "from importlib import import_module\nname = 'x'\n"
        "def late(): return import_module(f'toy_helper.{name}'), import_module(name), import_module('yaml')\n"
    )
    files, packages = follow(["toy_pack.toy.Toy"])
    assert set(files) == {"toy_pack", "toy_pack.toy", "toy_helper"}
    assert packages == {"yaml"}


def test_changes_name_each_part_that_differs(project: Path) -> None:
    before = provenance_of(TOY, "old data")
    (project / "toy_helper.py").write_text("late = int\n")
    after = provenance_of(TOY, "new data")
    assert list(changes(before, after)) == ["code of toy_helper", "data of env"]
    assert list(changes(before, before)) == []


def test_conflicts_are_of_parts_that_both_records_have() -> None:
    first = Provenance(code={"a": "1", "rlx": "1"}, packages={"torch": "2", "yaml": "1"})
    second = Provenance(code={"b": "1", "rlx": "2"}, packages={"torch": "3", "numpy": "1"})
    assert conflicts([first, first, second]) == ("code of rlx", "torch 2 -> 3")
    assert conflicts([]) == conflicts([first]) == ()


def test_a_record_is_read_as_it_was_written() -> None:
    record = provenance_of(TOY, "data")
    assert from_record(to_record(record)) == record
