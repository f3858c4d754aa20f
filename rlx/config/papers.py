"""Registry of the papers: one file a paper in scripts/papers, from which presets, reproductions, reports and docs read.

Keys of a file:

    presets   by name of conf/paper: title, sources, and rows [key, the paper's value, where it stands, reason]; the
              reason says why the preset has another value. A source that begins with "not published" marks a value that
              neither the paper nor its code states: the preset then has rlx's own. `lengths`, where the paper tells
              them: tokens and turns of an episode of one agent, and their source, from which `rlx plan` estimates time.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rlx.config.folders import shipped_folder
from rlx.record.plain_yaml import parse_small


def read_papers() -> Mapping[str, Mapping[str, Any]]:
    """Return what the registry states of each paper, by the paper's name."""
    files = sorted(shipped_folder("scripts/papers").glob("*.yaml"))
    return {file.stem: dict(parse_small(file.read_text(encoding="utf-8"))) for file in files}


def read_lengths(preset: str) -> Mapping[str, Any] | None:
    """Return the published lengths of a preset's episodes: tokens, turns and a source; None where there are none."""
    lengths = read_presets().get(preset, {}).get("lengths")
    return lengths if isinstance(lengths, Mapping) else None


def read_presets() -> Mapping[str, Mapping[str, Any]]:
    """Return the papers' settings, by the name of their presets."""
    return {name: preset for paper in read_papers().values() for name, preset in paper["presets"].items()}
