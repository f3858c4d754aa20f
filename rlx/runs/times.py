"""Seconds that episodes spent waiting, beside their trajectories: `times/step-000012.R.jsonl` of rank R.

They depend on the clock, so they are no part of a trajectory, and equal runs have other ones. A line is
`{"task": "3", "sample": 0, "repeat": 0, "queue": 0.1, "opening": 0.0, "turns": [[1.5, 0.2], …]}`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from rlx.base.regular import inside, make_parent, read_bounded, write_aside
from rlx.runs.folder import STEP
from rlx.runs.form import NATURAL, NUMBER, STRING, CodecError, in_order, made, many, parse

TIMES = "times"
"""Folder of a run, beside that of its trajectories, whose files equal runs have alike."""
DIGITS = 4


class TurnTimes(NamedTuple):
    """Seconds of one turn."""

    generate: float
    """Time from the request to its completion, with the engine's own queue."""
    environment: float
    """Time from the completion to the environment's answer: parse the action, run tools, wait for the tick."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EpisodeTimes:
    """Seconds of one episode. `turns` excludes the turns that a fork replays."""

    task: str
    """Key of the task."""
    sample: int
    repeat: int
    """Number of earlier starts of its step with this task and sample."""
    queue: float
    """Time from the sampler's request to the start, while as many episodes as may be were under way."""
    opening: float
    """Start of the environment's episode, with the replay of recorded actions."""
    turns: tuple[TurnTimes, ...]


TURN = in_order(NUMBER, NUMBER)
LINE = made(
    lambda turns, **fields: EpisodeTimes(turns=tuple(TurnTimes(*turn) for turn in turns), **fields),
    task=STRING,
    sample=NATURAL,
    repeat=NATURAL,
    queue=NUMBER,
    opening=NUMBER,
    turns=many(TURN),
)
Key = tuple[str, int, int]
"""Task, sample and repeat."""


def times_path(folder: Path, step: int, rank: int) -> Path:
    """Return the file of the times of a training step, as one rank measured them."""
    return inside(folder, TIMES) / f"{STEP}{step:06d}.{rank}.jsonl"


def save_times(path: Path, episodes: Iterable[EpisodeTimes]) -> None:
    """Write a line for each episode."""
    make_parent(path)
    write_aside(path, "".join(line_of(episode) for episode in episodes))


def line_of(episode: EpisodeTimes) -> str:
    turns = [[round(turn.generate, DIGITS), round(turn.environment, DIGITS)] for turn in episode.turns]
    fields = {"task": episode.task, "sample": episode.sample, "repeat": episode.repeat}
    spent = {"queue": round(episode.queue, DIGITS), "opening": round(episode.opening, DIGITS), "turns": turns}
    return json.dumps(fields | spent, separators=(",", ":")) + "\n"


def read_times(folder: Path, step: int) -> Mapping[Key, EpisodeTimes]:
    """Return the times of a step's episodes, of all ranks; lines that no run wrote are left out."""
    episode_times: dict[Key, EpisodeTimes] = {}
    for path in sorted(inside(folder, TIMES).glob(f"{STEP}{step:06d}.*.jsonl")):
        for raw in read_lines(path):
            try:
                episode: EpisodeTimes = LINE.read(parse(raw), "times")
            except CodecError:
                continue
            episode_times[episode.task, episode.sample, episode.repeat] = episode
    return episode_times


def read_lines(path: Path) -> list[bytes]:
    """Return the lines of a file; none of one that cannot be read."""
    try:
        return read_bounded(path).splitlines()
    except OSError:
        return []
