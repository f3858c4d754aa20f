"""Some of a run's episodes as rows of text, for a tracker's table: bounded, and without control characters."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

from rlx.base.console import clean
from rlx.runs.folder import STEP
from rlx.runs.store import StoreError, read, stored_files
from rlx.types import Part, Trajectory, Turn

COLUMNS = ("file", "task", "sample", "status", "success", "reward", "turns", "tokens", "prompt", "episode")
LONGEST = 4000
"""Characters of a cell."""
NAME = 200
"""Characters of a cell that holds a name."""


def episode_rows(folder: Path, num: int) -> list[list[Any]]:
    """Return the first `num` episodes of the run's evaluation, or else of its last stored step; none if none can be
    read."""
    if not num:
        return []
    try:
        file = file_for_table(stored_files(folder))
        return [row_of(file.stem, stored.trajectory) for stored in islice(read(file), num)]
    except (StoreError, OSError):
        return []


def file_for_table(files: list[Path]) -> Path:
    """Return the file of the trained policy's evaluation, or of the last step."""
    steps = [file for file in files if file.stem.startswith(STEP)]
    evaluations = [file for file in files if file.stem.startswith("eval")]
    return (evaluations[:1] or steps[-1:] or files)[0]


def row_of(name: str, episode: Trajectory) -> list[Any]:
    turns = episode.turns
    return [
        cell(name, NAME),
        cell(episode.task.key, NAME),
        episode.sample,
        episode.status,
        episode.success,
        float(episode.reward),
        len(turns),
        episode.num_tokens,
        cell(text_of((*episode.task.prompt, *episode.opening))),
        cell("\n".join(lines_of(turns))),
    ]


def lines_of(turns: Iterable[Turn]) -> Iterator[str]:
    """Yield what was done and seen in each turn."""
    for turn in turns:
        yield " ".join(part for part in (turn.agent, turn.action.kind, turn.action.name) if part)
        yield turn.action.text
        if turn.observation:
            yield f"-> {text_of(turn.observation)}"


def text_of(parts: Iterable[Part]) -> str:
    return "\n".join(part.text for part in parts)


def cell(text: str, longest: int = LONGEST) -> str:
    """Return text that a page shows as it is, cut to a bound."""
    cut = clean(text[:longest])
    return cut if len(text) <= longest else f"{cut[:-1]}…"
