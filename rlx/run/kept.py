"""Episodes of an evaluation that were played before, by this run or another: found again, or made again if damaged."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from rlx.record.codec import from_json, to_json
from rlx.record.folder import digest_of, set_aside
from rlx.record.store import StoreError, load
from rlx.run.life import Life
from rlx.run.run import Run
from rlx.types import Start, Trajectory


def read_kept(life: Life, path: Path, starts: Sequence[Start], version: int | None = None) -> list[Trajectory] | None:
    """The episodes in a file, if there is one where rank 0 is, and if policy `version` played them, where given. One
    that is damaged is moved out of the way, to be made again."""
    found: list[Trajectory] = []

    def look() -> bool:
        if not os.path.lexists(path):
            return False
        try:
            found.extend(episodes_in(path, starts))
        except (StoreError, OSError) as error:
            life.screen.say(f"{error}: played again; what was there is now {set_aside(path)}")
            return False
        return version is None or is_by(version, found)

    if not life.ranks.first(look):
        return None
    if life.ranks.size == 1:
        return found
    told = life.ranks.first(lambda: [to_json(trajectory) for trajectory in found])
    return [from_json(trajectory) for trajectory in told]


def settings_digest(run: Run) -> str:
    """A name for all that a policy's evaluation depends on, but for the policy and the hardware's rounding."""
    return digest_of({key: run.config.get(key) for key in ("env", "protocol", "sampling", "evaluate")})


def settings_path(path: Path) -> Path:
    """Beside a file of episodes, the digest of the settings they were played with."""
    return path.with_suffix(".settings")


def is_settled(life: Life, path: Path) -> bool:
    """Whether the run's own episodes in a file were played with its settings as they are now."""

    def look() -> bool:
        try:
            return settings_path(path).read_text(encoding="utf-8").strip() == settings_digest(life.run)
        except (OSError, ValueError):
            return False

    return life.ranks.first(look)


def is_by(version: int, episodes: Sequence[Trajectory]) -> bool:
    """Whether this version of the policy sampled every turn."""
    return all(turn.completion.version == version for episode in episodes for turn in episode.turns)


def episodes_in(path: Path, starts: Sequence[Start]) -> list[Trajectory]:
    """The episodes in a file; StoreError where they are not those of `starts`."""
    found = [trajectory for group in load(path) for trajectory in group.trajectories]
    if [(one.task.id, one.sample) for one in found] != [(start.task.id, start.sample) for start in starts]:
        raise StoreError(f"{path} holds other episodes than its name says")
    return found
