"""Pictures of a stored episode, drawn by its environment in a process of its own (`rlx.view.pictures`).

The episode is replayed, as `rlx replay` does: the run's configuration may name only code that rlx ships or that the
user trusts. An environment whose episodes have no picture is not stepped.
"""

from __future__ import annotations

import os
import resource
from collections.abc import Generator, Iterator, Mapping
from pathlib import Path
from typing import Any

from rlx.base.fault import fault
from rlx.base.regular import open_regular
from rlx.environment import Environment, Episode
from rlx.environment.world import give_luck, is_for_environment, open_episode, part_of, parts_of, step_within
from rlx.runs.index import bytes_of
from rlx.runs.rows import Row
from rlx.runs.store import Stored, parse_line
from rlx.settings.compose import build_part
from rlx.settings.saved import load_tree
from rlx.tool.contain.forks import address_space
from rlx.types import Step, Trajectory
from rlx.view.limits import MOST_TEXT

NONE = "the environment draws no picture"
FILE_MB = 256
"""Size of a file that an environment may write."""


class NoPictureError(Exception):
    """A reason for which an environment does not draw; the message is one line."""


def tasks() -> list[str]:
    """Return no names: a request names a file and a row."""
    return []


def play(task: Mapping[str, Any], options: Mapping[str, Any], seed: int) -> Generator[dict[str, str], None, None]:
    """Yield a picture for each request, at last why there are no more: nothing after the last turn."""
    limit(options["memory_mb"])
    os.chdir(options["here"])  # a configuration may name files from there
    num = 0
    try:
        stored = read_stored(Path(task["file"]), Row(*task["row"]))
        env = build_part(load_tree(Path(task["folder"]), parts=("env",)), "env")
        for picture in draw(env, stored.trajectory, stored.max_rounds):
            num += 1
            yield {"picture": picture[:MOST_TEXT]}
        yield {"why": "" if num else NONE}
    except NoPictureError as error:
        yield {"why": str(error)}
    except Exception as error:  # of the environment, of a configuration that is not trusted, or of a stored action
        yield {"why": fault(error)}


def limit(memory_mb: int) -> None:
    """Limit the address space, beyond its present size, and the size of files, for this process and its children."""
    memory = address_space() + memory_mb * 2**20
    for resource_kind, value in ((resource.RLIMIT_AS, memory), (resource.RLIMIT_FSIZE, FILE_MB * 2**20)):
        hard = resource.getrlimit(resource_kind)[1]
        least = value if hard == resource.RLIM_INFINITY else min(value, hard)
        resource.setrlimit(resource_kind, (least, least))


def read_stored(path: Path, row: Row) -> Stored:
    with open_regular(path) as source:
        return parse_line(bytes_of(source, row), row.line)


def draw(env: Environment, stored: Trajectory, max_rounds: int | None) -> Iterator[str]:
    """Yield the picture after the opening and after each turn."""
    parts: Mapping[str, Any] = parts_of(env)
    if stored.task.env not in parts:
        raise NoPictureError("the run's configuration has no such environment")
    part = part_of(env, stored.task)
    if not part.replayable:
        raise NoPictureError(f"{type(part).__name__} does not replay")
    yield from replay(part, stored, part.max_rounds if max_rounds is None else max_rounds)


def replay(env: Environment, stored: Trajectory, max_rounds: int | None) -> Iterator[str]:
    passed = 0
    with open_episode(env, stored.task) as episode:
        if not has_picture(episode):
            return
        last: Step = episode.opening()
        yield episode.picture()
        for turn in stored.turns:
            if last.done:
                return
            give_luck(episode, turn.luck)
            last = step_within(episode, turn.action, passed, max_rounds, last)
            passed += is_for_environment(turn.action)
            yield episode.picture()


def has_picture(episode: Episode) -> bool:
    return type(episode).picture is not Episode.picture
