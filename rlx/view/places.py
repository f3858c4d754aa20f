"""Runs and files that may be asked for: those found below the folders that the user named.

Nothing of a request becomes a path. A request names a run and a file, and both are looked up in what was found here.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from time import monotonic

from rlx.base.http import RefusedError
from rlx.base.regular import inside, read_bounded
from rlx.runs.files import EpisodeFile, episode_files
from rlx.runs.find import runs_below

LOOK = 0.9
"""Seconds after which folders are looked through again."""


@dataclass
class Places:
    """The folders that the user named, and the runs below them."""

    folders: Sequence[Path]
    _runs: Mapping[str, Path] = field(default_factory=dict)
    _looked: float = -LOOK
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def runs(self) -> Mapping[str, Path]:
        """Return the folders of runs by their ids."""
        with self._lock:
            if monotonic() - self._looked >= LOOK:
                self._runs, self._looked = name_runs(self.folders), monotonic()
            return self._runs

    def id_of(self, folder: Path) -> str | None:
        """Return the id of the run in a folder; None where it is no run."""
        return next((run for run, path in self.runs().items() if path == folder), None)

    def find(self, run: str) -> Path:
        folder = self.runs().get(run)
        if folder is None:
            raise RefusedError(404, "there is no such run")
        return folder


def name_runs(folders: Sequence[Path]) -> dict[str, Path]:
    """Return the runs below folders by ids: their paths from there, after the folder's name where there are several."""
    runs: dict[str, Path] = {}
    run_folders: set[Path] = set()
    for place in folders:
        for folder in runs_below(place):
            if folder not in run_folders:
                run_folders.add(folder)
                runs[free_id(id_of(folder, place, several=len(folders) > 1), runs)] = folder
    return runs


def id_of(folder: Path, place: Path, *, several: bool) -> str:
    """Return a run's id, which a browser can write into an address."""
    parts = folder.relative_to(place).parts
    named = (place.resolve().name, *parts) if several or not parts else parts
    return "/".join(named).encode("utf-8", "replace").decode()


def free_id(name: str, runs: Mapping[str, Path]) -> str:
    number, free = 1, name
    while free in runs:
        number, free = number + 1, f"{name}~{number + 1}"
    return free


def find_file(folder: Path, name: str) -> EpisodeFile:
    """Return a run's file of episodes by its name."""
    episode_file = next((file for file in episode_files(folder)[0] if file.name == name), None)
    if episode_file is None:
        raise RefusedError(404, "the run has no such file")
    return episode_file


def read_inside(folder: Path, name: str) -> bytes | str:
    """Return a file of a run's folder, or why it cannot be read; empty where there is none."""
    try:
        return read_bounded(inside(folder, name))
    except FileNotFoundError:
        return b""
    except OSError as error:
        return f"{name}: {error.strerror}"
