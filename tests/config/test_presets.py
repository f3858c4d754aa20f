"""Options that build on another say only what differs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from rlx.settings.folders import read_option, shipped_folder
from tests.loops import for_each

CONF = shipped_folder("conf")


def parents(file: Path) -> list[Path]:
    """The options of its own group that a file builds on: beside it, or by a name from its family's folder."""
    listed = (yaml.safe_load(file.read_text(encoding="utf-8")) or {}).get("defaults", [])
    names = [name for name in listed if isinstance(name, str) and name != "_self_"]
    family = CONF / file.relative_to(CONF).parts[0]
    return [
        family / f"{name.removesuffix('@_here_')}.yaml" if "@" in name else file.with_name(f"{name}.yaml")
        for name in names
    ]


def keys_above(file: Path) -> dict[str, Any]:
    """What a file inherits, nearest word last."""
    found: dict[str, Any] = {}
    for above in parents(file):
        found |= keys_above(above) | yaml.safe_load(above.read_text(encoding="utf-8"))
    return found


CHILDREN = [file for file in sorted(CONF.glob("*/**/*.yaml")) if file.parts[-2] != "launcher" and parents(file)]


@for_each("file", CHILDREN)
def test_an_option_repeats_nothing_that_it_inherits(file: Path) -> None:
    own: dict[str, Any] = yaml.safe_load(file.read_text(encoding="utf-8"))
    inherited = keys_above(file)
    assert [key for key in own if key in inherited and own[key] == inherited[key]] == []


@pytest.mark.parametrize("group", ["evaluate", "hardware"])
def test_every_option_of_a_group_but_one_builds_on_another(group: str) -> None:
    whole = [file.stem for file in sorted((CONF / group).glob("*.yaml")) if file not in CHILDREN]
    assert len(whole) == 1, whole


def test_an_option_keeps_what_it_inherits_below_a_key_it_changes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "base.yaml").write_text("path: base\nshape: {width: 4, layers: 2}\n")
    (tmp_path / "model" / "wide.yaml").write_text("defaults: [base, _self_]\nshape: {width: 8}\n")
    monkeypatch.setattr("rlx.settings.folders.shipped_folder", lambda path: tmp_path)
    assert read_option("model", "wide") == {"path": "base", "shape": {"width": 8, "layers": 2}}
