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
    files = {file.stem: file for file in sorted(shipped_folder("scripts/reproduce").glob("*.yaml"))}
    presets = read_presets()
    if name not in files and name not in presets:
        raise ConfigError(f"--against {name!r:.60}: there is no such paper{near(name, [*files, *presets])}")
    reproduction = read_reproduction(files[name]) if name in files else None
    return paper_of(name, reproduction, presets.get(name, {}))


def paper_of(name: str, reproduction: Reproduction | None, preset: Mapping[str, Any] = {}) -> Paper:
    """Return the values of a reproduction, a preset or both."""
    settings = tuple(map(setting_of, preset.get("rows", ())))
    if reproduction is None:
        return Paper(name=name, source=str(preset["title"]), settings=settings)
    source = f"{reproduction.source}. {reproduction.setting}" if reproduction.setting else reproduction.source
    return Paper(name=name, source=source, rows=reproduction.rows, published=reproduction.published, settings=settings)


def setting_of(row: Sequence[Any]) -> PaperSetting:
    """Return a setting from a row: its key, its value, the source, and a reason for another value."""
    key, value, source, *reason = row
    return PaperSetting(key=str(key), value=value, source=str(source), reason=str(reason[0]) if reason else "")
