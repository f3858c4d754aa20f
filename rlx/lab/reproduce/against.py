"""Values of a paper for a report: the published figures of a reproduction, and the settings of scripts/papers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rlx.base.limits import near
from rlx.lab.reproduce.files import read_reproduction
from rlx.lab.reproduce.reproduction import Reproduction
from rlx.settings.check import ConfigError
from rlx.settings.folders import shipped_folder
from rlx.settings.papers import read_presets
from rlx.view.report.paper import Paper, PaperSetting


def find_paper(name: str) -> Paper:
    """Return the published figures of a reproduction, the settings of a paper's preset, or both under one name."""
    if name.endswith(".yaml"):
        return paper_of(Path(name).stem, read_reproduction(Path(name)))
    known = {file.stem: file for file in sorted(shipped_folder("scripts/reproduce").glob("*.yaml"))}
    presets = read_presets()
    if name not in known and name not in presets:
        raise ConfigError(f"--against {name!r:.60}: there is no such paper{near(name, [*known, *presets])}")
    what = read_reproduction(known[name]) if name in known else None
    return paper_of(name, what, presets.get(name, {}))


def paper_of(name: str, what: Reproduction | None, preset: Mapping[str, Any] = {}) -> Paper:
    """Return the values of a reproduction, a preset or both."""
    settings = tuple(map(setting_of, preset.get("rows", ())))
    if what is None:
        return Paper(name=name, source=str(preset["title"]), settings=settings)
    source = f"{what.source}. {what.setting}" if what.setting else what.source
    return Paper(name=name, source=source, rows=what.rows, published=what.published, settings=settings)


def setting_of(row: Sequence[Any]) -> PaperSetting:
    """Return a setting from a row: its key, its value, the source, and a reason for another value."""
    key, value, source, *reason = row
    return PaperSetting(key=str(key), value=value, source=str(source), reason=str(reason[0]) if reason else "")
