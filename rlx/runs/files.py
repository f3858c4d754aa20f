"""Files of episodes of a run: stored ones, and parts of an evaluation under way."""

from __future__ import annotations

import math
import os
import re
from dataclasses import dataclass
from pathlib import Path

from rlx.base.regular import inside, require_regular
from rlx.runs.folder import STEP, TRAJECTORIES
from rlx.runs.store import split_numbers

WHOLE, PARTIAL = ".jsonl", ".partial"
"""Ends of file names: stored episodes, and episodes of an evaluation under way."""
BUDGET = re.compile(r"[0-9]+|own", re.ASCII)
"""Limit of turns in the name of an evaluation; `own` is each environment's own."""


@dataclass(frozen=True, kw_only=True)
class EpisodeFile:
    """A file of episodes."""

    path: Path
    state: tuple[int, int, int]
    """Size in bytes, time of the last change, and inode number."""

    @property
    def name(self) -> str:
        return self.path.name

    @property
    def is_partial(self) -> bool:
        return self.name.endswith(PARTIAL)

    @property
    def kind(self) -> str:
        """Return train, or the first word of the name: eval, start, untrained, result."""
        return "train" if self.name.startswith(STEP) else self.name.partition("-")[0].partition(".")[0]

    @property
    def step(self) -> int | None:
        number = self.name.removeprefix(STEP).removesuffix(WHOLE)
        is_step = self.name.startswith(STEP) and number.isascii() and number.isdigit() and len(number) < 16
        return int(number) if is_step else None


def episode_files(run: Path) -> tuple[list[EpisodeFile], list[str]]:
    """Return a run's files of episodes, training steps first, 2 before 10, and a line for each unreadable one."""
    files, damage = [], []
    try:
        place = inside(run, TRAJECTORIES)
        names = [name for name in os.listdir(place) if name.endswith((WHOLE, PARTIAL)) and not name.startswith(".")]
    except FileNotFoundError:
        return [], []
    except OSError as error:
        return [], [f"{TRAJECTORIES}: {error.strerror}"]
    for name in sorted(names, key=split_numbers):
        try:
            files.append(episode_file(place / name))
        except (OSError, ValueError) as error:
            line = f"{TRAJECTORIES}/{name}: {getattr(error, 'strerror', None) or error}"
            damage.append(line.encode("utf-8", "replace").decode())
    return sorted(files, key=lambda file: file.kind != "train"), damage


def episode_file(path: Path) -> EpisodeFile:
    """Look at a file of episodes; OSError or ValueError for a path that holds no regular file."""
    path.name.encode()
    require_regular(path)
    status = os.lstat(path)
    return EpisodeFile(path=path, state=(status.st_size, status.st_mtime_ns, status.st_ino))


def budgets_of(run: Path, noun: str = "eval") -> list[str]:
    """Return the limits of turns of a run's stored evaluations of a policy, `eval` or `start`, largest first."""
    parts = [file.path.stem.partition("-") for file in episode_files(run)[0] if not file.is_partial]
    budgets = [budget for word, _, budget in parts if word == noun and BUDGET.fullmatch(budget)]
    return sorted(budgets, key=rounds_in, reverse=True)


def rounds_in(budget: str) -> float:
    """Return the limit of turns as a number; infinite where each environment has its own."""
    return math.inf if budget == "own" else int(budget)
