"""`api/pictures`: an episode drawn by its environment, after each turn.

The episode is replayed, as `rlx replay` does: the run's configuration may name only code that rlx ships or that the
user trusts. An environment whose episodes have no picture is not stepped.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from time import monotonic
from typing import Any

from rlx.config.compose import build_part
from rlx.config.saved import load_tree
from rlx.environment import Environment, Episode
from rlx.fault import fault
from rlx.types import Step, Trajectory
from rlx.view.episode import read_line
from rlx.view.episodes import FileColumns
from rlx.view.limits import MOST_TEXT, dump
from rlx.world import give_luck, is_for_environment, open_episode, part_of, parts_of, step_within

SECONDS = 10.0
"""Seconds of a replay."""
REPLAYING = threading.Lock()
"""One replay at a time: environments may hold what a process has once."""
NONE = "the environment draws no picture"


def pictures_answer(folder: Path, one: FileColumns, number: int) -> bytes:
    """Return the pictures, or why there is none."""
    line = read_line(one.file, one.columns, number)
    if not REPLAYING.acquire(timeout=SECONDS):
        return answer([], "another episode is being replayed")
    try:
        env = build_part(load_tree(folder, parts=("env",)), "env")
        return draw(env, line.episode, line.stored.max_rounds)
    except Exception as error:  # of the environment, of a configuration that is not trusted, or of a stored action
        return answer([], fault(error))
    finally:
        REPLAYING.release()


def answer(pictures: list[str], why: str) -> bytes:
    return dump({"pictures": [text[:MOST_TEXT] for text in pictures], "why": why[:1000]})


def draw(env: Environment, episode: Trajectory, max_rounds: int | None) -> bytes:
    parts: Mapping[str, Any] = parts_of(env)
    if episode.task.env not in parts:
        return answer([], "the run's configuration has no such environment")
    part = part_of(env, episode.task)
    if not part.replayable:
        return answer([], f"{type(part).__name__} does not replay")
    found: list[str] = []
    try:
        for picture in replay(part, episode, part.max_rounds if max_rounds is None else max_rounds):
            found.append(picture)
    except Exception as error:  # what was drawn before is right
        return answer(found, fault(error))
    return answer(found, "" if found else NONE)


def replay(env: Environment, stored: Trajectory, max_rounds: int | None) -> Iterator[str]:
    """Yield the picture after the opening and after each turn."""
    until, passed = monotonic() + SECONDS, 0
    with open_episode(env, stored.task) as episode:
        if not has_picture(episode):
            return
        last: Step = episode.opening()
        yield episode.picture()
        for turn in stored.turns:
            if last.done or monotonic() > until:
                return
            give_luck(episode, turn.luck)
            last = step_within(episode, turn.action, passed, max_rounds, last)
            passed += is_for_environment(turn.action)
            yield episode.picture()


def has_picture(episode: Episode) -> bool:
    return type(episode).picture is not Episode.picture
