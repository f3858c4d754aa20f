"""What a result depends on of code: rlx's own, and the user's modules with all that they import in their project."""

from __future__ import annotations

import sys
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path
from typing import Any

import pytest

from rlx.runs import provenance
from rlx.runs.provenance import (
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


def test_an_installed_module_without_a_distribution_counts_by_its_file(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    installed = provenance.is_installed
    monkeypatch.setattr(provenance, "is_installed", lambda path: installed(path) or path.name == "toy_helper.py")
    before = digest(TOY)
    (project / "toy_helper.py").write_text("late = int\n")
    assert digest(TOY) != before


@pytest.mark.parametrize(
    ("origin", "counts"),
    [
        ('{"url": "https://example.org/toy", "vcs_info": {"vcs": "git", "commit_id": "aaaa"}}', True),
        ('{"url": "file:///home/user/toy", "dir_info": {}}', True),
        ('{"url": "file:///home/user/toy", "dir_info": {"editable": true}}', False),
        ("[]", False),
        (None, False),
    ],
)
def test_a_package_of_a_repository_or_folder_counts_by_its_files_beside_its_version(
    project: Path, origin: str | None, counts: bool
) -> None:
    folder = project / "toy_installed-1.0.dist-info"
    folder.mkdir()
    (folder / "METADATA").write_text("Metadata-Version: 2.1\nName: toy-installed\nVersion: 1.0\n")
    if origin is not None:
        (folder / "direct_url.json").write_text(origin)

    def text_with(record: str) -> str:
        (folder / "RECORD").write_text(record)
        provenance.files_of.cache_clear()
        return versions_of(["toy-installed"])["toy-installed"]

    before = text_with("toy.py,sha256=one,1\ntoy_installed-1.0.dist-info/METADATA,sha256=x,9\n")
    assert text_with("toy.py,sha256=one,1\ntoy_installed-1.0.dist-info/METADATA,sha256=y,9\n") == before
    assert (text_with("toy.py,sha256=two,1\n") != before) == counts
    assert before.startswith("1.0")


def test_machine_code_beside_a_users_module_counts(project: Path) -> None:
    (project / "toy_pack" / "toy.py").write_text("import toy_fast\nfrom . import inner_fast\n")
    for folder, name in ((project, "toy_fast"), (project / "toy_pack", "inner_fast")):
        file = folder / f"{name}{EXTENSION_SUFFIXES[0]}"
        file.write_bytes(b"\x7fELF one")
        before = digest(TOY)
        file.write_bytes(b"\x7fELF two")
        assert digest(TOY) != before, name


def test_a_file_that_a_users_module_names_counts(project: Path) -> None:
    (project / "toy_pack" / "data").mkdir()
    for name in ("words.txt", "data/rules.json", "other.txt"):
        (project / "toy_pack" / name).write_text("1")
    (project / "toy_pack" / "reward.py").write_text(
        "from pathlib import Path\nHERE = Path(__file__).parent\nNAMES = ['words.txt', HERE / 'data' / 'rules.json']\n"
    )
    before = provenance_of(TOY)
    (project / "toy_pack" / "other.txt").write_text("2")
    assert provenance_of(TOY) == before
    for name in ("words.txt", "data/rules.json"):
        (project / "toy_pack" / name).write_text("2")
        after = provenance_of(TOY)
        assert list(changes(before, after)) == [f"code of toy_pack.reward: {name}"]
        before = after
