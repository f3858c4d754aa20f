"""Registry of the papers: one file a paper in scripts/papers, from which presets, reproductions, reports and docs read.

Keys of a file:

    presets   by name of conf/paper: title, sources, and rows [key, the paper's value, where it stands, reason]; the
              reason says why the preset has another value. A source that begins with "not published" marks a value that
              neither the paper nor its code states: the preset then has rlx's own. lengths: tokens and turns of an
              episode where the paper prints them, and their source.
    inherited rows of values that no preset of the paper sets itself, for all of them: what they take from defaults
    arms      by preset and name: title, source (the place in the paper), words (overrides beside the preset), keeps
              (keys below an option that the words replace, whose values stay the preset's) and why (the reason for a
              value that the paper does not state). `main` is the preset's own run. A preset without arms has those of
              the preset that it builds on. rlx/settings/arms.py reads them for `+paper=NAME +arm=NAME`.
    tables, claims   rlx/lab/reproduce/papers.py reads them
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rlx.settings.arms import read_papers

__all__ = ["inherited_rows", "read_papers", "read_presets"]


def inherited_rows(preset: str) -> list[list[Any]]:
    """Return the rows of values that a preset may take from defaults: those of its paper."""
    papers = (paper for paper in read_papers().values() if preset in paper["presets"])
    return [row for paper in papers for row in paper.get("inherited", ())]


def read_lengths(preset: str) -> Mapping[str, Any] | None:
    """Return the published lengths of a preset's episodes: tokens, turns and a source; None where there are none."""
    lengths = read_presets().get(preset, {}).get("lengths")
    return lengths if isinstance(lengths, Mapping) else None


def read_presets() -> Mapping[str, Mapping[str, Any]]:
    """Return the papers' settings, by the name of their presets."""
    return {name: preset for paper in read_papers().values() for name, preset in paper["presets"].items()}
