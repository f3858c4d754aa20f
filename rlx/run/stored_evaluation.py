"""Episodes of an evaluation that were played before, by this run or another: found again, gone on with where it was cut
off, or made again if damaged."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from rlx.base.regular import inside, read_text, write_aside
from rlx.evaluation.compare import name_rounds
from rlx.hardware.ranks import Ranks
from rlx.run.inputs import provenance_in
from rlx.run.policies import keep_chosen
from rlx.run.process import Process
from rlx.run.run import Run
from rlx.runs.codec import from_json, to_json
from rlx.runs.folder import TRAJECTORIES, digest_of
from rlx.runs.single_files import set_aside
from rlx.runs.store import StoreError, good_lines, load, save
from rlx.types import Group, Start, Trajectory


def evaluation_key(run: Run, policy: str | int) -> str:
    """A name for all that an evaluation's episodes depend on, but for the hardware's rounding. `policy` tells it from
    others: by its weights, or within a run by how many updates it has had."""
    config = {key: run.config.get(key) for key in SETTINGS} | keep_chosen(run.config)
    return digest_of({"policy": policy, **config, "provenance": provenance_in(config, run.env).digest})


SETTINGS = ("env", "protocol", "sampling", "evaluate")


def evaluation_path(run: Run, noun: str, max_rounds: int | None) -> Path:
    """Return the file of a run's evaluation under a budget."""
    return inside(run.folder, TRAJECTORIES) / f"{noun}-{name_rounds(max_rounds)}.jsonl"


def read_evaluation(process: Process, path: Path, starts: Sequence[Start]) -> list[Trajectory] | None:
    """The episodes in a file, if there is one where rank 0 is. One that is damaged is moved out of the way, to be made
    again."""

    def look() -> list[Trajectory] | None:
        if not os.path.lexists(path):
            return None
        try:
            return episodes_in(path, starts)
        except (StoreError, OSError) as error:
            process.screen.say(f"{error}: played again; what was there is now {set_aside(path)}")
            return None

    episodes = look() if process.ranks.is_first else None
    return share(process.ranks, episodes or []) if process.ranks.broadcast(episodes is not None) else None


def share(ranks: Ranks, episodes: Sequence[Trajectory]) -> list[Trajectory]:
    """Return rank 0's episodes, on every rank."""
    if ranks.size == 1:
        return list(episodes)
    return [from_json(fields) for fields in ranks.broadcast([to_json(trajectory) for trajectory in episodes])]


def episodes_in(path: Path, starts: Sequence[Start]) -> list[Trajectory]:
    """Return the episodes in a file; StoreError if their tasks and samples differ from `starts`."""
    episodes = [trajectory for group in load(path) for trajectory in group.trajectories]
    if [(episode.task.key, episode.sample) for episode in episodes] != [
        (start.task.key, start.sample) for start in starts
    ]:
        raise StoreError(f"{path} holds other episodes than its name says")
    return episodes


def is_of(process: Process, path: Path, key: str) -> bool:
    """Tell whether the run's own episodes in a file are those of this policy and these settings."""

    def look() -> bool:
        try:
            return read_text(key_path(path)).strip() == key
        except (OSError, ValueError):
            return False

    return process.ranks.first(look)


def key_path(path: Path) -> Path:
    """Return the file beside episodes that holds the key of their evaluation."""
    return path.with_suffix(".key")


def part_path(path: Path, key: str, rank: int) -> Path:
    """Return the file of a rank's episodes while the evaluation that becomes `path` is played."""
    return path.with_suffix(f".{key}-{rank}.partial")


def read_parts(process: Process, path: Path, key: str) -> dict[tuple[str, int], Trajectory]:
    """Read what was stored of an evaluation before it was cut off, by however many ranks; by task and sample."""

    def look() -> list[Trajectory]:
        parts = sorted(path.parent.glob(f"{path.stem}.{key}-*.partial"))
        return [stored.trajectory for part in parts for _, stored in good_lines(part)]

    return {
        (trajectory.task.key, trajectory.sample): trajectory
        for trajectory in share(process.ranks, look() if process.ranks.is_first else [])
    }


def is_begun(process: Process, path: Path, key: str) -> bool:
    """Tell whether the run played a part of this evaluation before an interrupt."""
    return process.ranks.first(lambda: any(path.parent.glob(f"{path.stem}.{key}-*.partial")))


def store_evaluation(path: Path, key: str, groups: Sequence[Group], max_rounds: int | None) -> None:
    """The run's own file of an evaluation that is over; nothing is left of how it grew."""
    key_path(path).unlink(missing_ok=True)
    save(path, groups, max_rounds=max_rounds)
    write_aside(key_path(path), key + "\n")
    for part in path.parent.glob(f"{path.stem}.*.partial"):
        part.unlink()
