"""`rlx data cache`: what rlx has kept outside run folders, and how it is cleared.

Only folders that rlx has made there are listed or removed: RLX_CACHE may name a folder with other things in it.
"""

from __future__ import annotations

import os
import re
import shutil
import stat
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from rlx.base.console import format_count, one_line
from rlx.base.table import Table
from rlx.runs.cache import VIEW, cache_folder
from rlx.runs.folder import CONFIG, EVALUATIONS, LOCK, FolderError, read_config
from rlx.runs.lock import HeldError, hold

KINDS = {
    "warm": "warm start",
    EVALUATIONS: "evaluation",
    "models": "converted model",
    "vllm": "vLLM's configuration",
    VIEW: "index of a run's episodes",
}
"""Folders of the cache, and what each entry of them is."""
DIGEST = r"[0-9a-f]{16,64}"
NAMES = {"warm": DIGEST, EVALUATIONS: DIGEST, "models": r".+-[0-9]+", "vllm": DIGEST, VIEW: DIGEST}
"""Names that rlx gives to entries, by folder."""
DAY = 86_400


@dataclass(frozen=True, kw_only=True)
class Entry:
    """One folder of the cache."""

    folder: Path
    kind: str
    num_bytes: int
    used: float
    """When something in it was last written, in seconds."""

    @property
    def description(self) -> str:
        """Return the kind of the entry, with the stage of a warm start that has a configuration."""
        kind = KINDS[self.kind]
        return f"{kind}: {stage}" if (stage := stage_of(self.folder)) else kind


def read_cache(folder: Path | None = None) -> list[Entry]:
    """Return the cache's entries, the one written last first."""
    place = folder or cache_folder()
    entries = [entry_of(path, kind) for kind in KINDS for path in entries_in(place / kind, kind)]
    return sorted(entries, key=lambda entry: -entry.used)


def entries_in(place: Path, kind: str) -> Iterator[Path]:
    """Yield the folders that rlx names so; no links, no files."""
    with suppress(OSError):
        for path in sorted(place.iterdir()):
            if re.fullmatch(NAMES[kind], path.name) and path.is_dir() and not path.is_symlink():
                yield path


def entry_of(folder: Path, kind: str) -> Entry:
    stats = [file_stat for path in (folder, *folder.rglob("*")) if (file_stat := stat_of(path)) is not None]
    num_bytes = sum(file_stat.st_size for file_stat in stats if stat.S_ISREG(file_stat.st_mode))
    return Entry(folder=folder, kind=kind, num_bytes=num_bytes, used=max((s.st_mtime for s in stats), default=0.0))


def stat_of(path: Path) -> os.stat_result | None:
    with suppress(OSError):
        return path.lstat()
    return None


def stage_of(folder: Path) -> str:
    """Name the algorithm, the environment and the steps of a warm start: `tool_sft on Countdown, 30 steps`."""
    if not (folder / CONFIG).is_file():
        return ""
    try:
        config = read_config(folder)
        algo, env = (str(config[part]["_target_"]).rsplit(".", 1)[-1] for part in ("algo", "env"))
        return one_line(f"{algo} on {env}, {format_count(int(config['steps']), 'step')}", 60)
    except (FolderError, KeyError, TypeError, ValueError):
        return ""


def cache_table(entries: Sequence[Entry], folder: Path) -> Table:
    """Return a row per entry: description, size, time of the last write, name."""
    rows = [
        (e.description, megabytes(e.num_bytes), f"{datetime.fromtimestamp(e.used):%Y-%m-%d %H:%M}", e.folder.name)
        for e in entries
    ]
    total = megabytes(sum(entry.num_bytes for entry in entries))
    title = f"{format_count(len(rows), 'folder')}, {total} in {one_line(str(folder))}"
    return Table(title=title, header=("kept", "size", "written", "name"), rows=tuple(rows))


def megabytes(num: int) -> str:
    return f"{num / 1e6:,.1f} MB"


def older_than(entries: Sequence[Entry], days: float) -> list[Entry]:
    """Return the entries in which nothing was written for so many days."""
    return [entry for entry in entries if time.time() - entry.used >= days * DAY]


def clear(entries: Sequence[Entry]) -> tuple[list[Entry], list[str]]:
    """Remove these entries; return those that are gone, and why others stay."""
    gone, refusals = [], []
    for entry in entries:
        try:
            remove(entry.folder)
            gone.append(entry)
        except HeldError as error:
            refusals.append(f"{entry.folder} is in use by {error}")
        except OSError as error:
            refusals.append(f"{entry.folder}: {error.strerror}")
    return gone, refusals


def remove(folder: Path) -> None:
    """Remove a folder in which no run is at work. Rename the folder first, so that no process reads half an entry."""
    aside = folder.with_name(f".{folder.name}.gone")
    if (folder / LOCK).exists():
        with hold(folder / LOCK):
            folder.rename(aside)
    else:
        folder.rename(aside)
    shutil.rmtree(aside)
