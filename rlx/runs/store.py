"""Trajectories on disk: `trajectories/step-000012.jsonl`, one line per trajectory, for the viewer and for replay.

A line is `{"format": 2, "group": g, "max_rounds": r, "trajectory": {...}}`: `group` numbers the groups of the file from
0, `max_rounds` is the limit of turns it was played under. What training made of a turn stands in the turn. Only ASCII
is written, so a file may be shown in a terminal whatever a model said. A file appears whole or not at all.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any

from rlx.base.limits import MistakeError
from rlx.base.regular import inside, lines_of, make_parent, open_regular, open_to_append, write_aside
from rlx.runs.codec import FORMAT, Notes, from_json, to_json
from rlx.runs.folder import STEP, TRAJECTORIES
from rlx.runs.form import CodecError, natural, parse, record
from rlx.runs.index import open_index
from rlx.types import Group, Trajectory


class StoreError(MistakeError):
    """A trajectory file that cannot be read; the message is one line, `file:line: what`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stored:
    """One line of a trajectory file."""

    line: int
    """Number of the line, from 1."""
    group: int
    max_rounds: int | None
    """Limit of turns during the episode; None: the environment's own limit, if any."""
    trajectory: Trajectory


def step_path(folder: Path, step: int) -> Path:
    """Return the file of the trajectories of a training step."""
    return inside(folder, TRAJECTORIES) / f"{STEP}{step:06d}.jsonl"


def stored_files(folder: Path) -> list[Path]:
    """A run's files of episodes: training steps in their order, then evaluations; StoreError where none was kept."""
    files = sorted(inside(folder, TRAJECTORIES).glob("*.jsonl"), key=lambda file: split_numbers(file.stem))
    if not files:
        raise StoreError(f"{folder} kept no trajectories")
    return sorted(files, key=lambda file: not file.stem.startswith(STEP))


def split_numbers(name: str) -> list[tuple[int, str]]:
    """Return a key that orders names by the numbers in them: `result-60` before `result-120`."""
    return [(int(part), "") if part.isdecimal() else (0, part) for part in re.split(r"([0-9]+)", name)]


def save(
    path: Path, groups: Iterable[Group], *, max_rounds: int | None, notes: Sequence[Sequence[Sequence[Notes]]] = ()
) -> None:
    """Write groups to `path`; `notes` of each group's trajectories' turns, if there are."""
    values = [
        value_of(index, max_rounds, trajectory, notes[index][place] if notes else ())
        for index, group in enumerate(groups)
        for place, trajectory in enumerate(group.trajectories)
    ]
    save_lines(path, values)


def save_lines(path: Path, values: Sequence[dict[str, Any]]) -> None:
    """Write the lines of these values to `path`, and the index of the file, which a reader would make else."""
    make_parent(path)
    write_aside(path, "".join(map(line_of, values)))
    with suppress(OSError), open_index(path):
        pass


@contextmanager
def growing(path: Path, *, max_rounds: int | None) -> Iterator[Callable[[Trajectory], None]]:
    """Add episodes to a file as they end, each on the disk's side before the next: a killed process leaves whole lines
    and at most one half written, which is cut off here together with whatever follows a damaged one."""
    make_parent(path)
    with open_to_append(path) as file:
        file.truncate(sum(len(raw) for raw, _ in good_lines(path)))

        def add(trajectory: Trajectory) -> None:
            file.write(line_of(value_of(0, max_rounds, trajectory)).encode())
            file.flush()

        yield add


def good_lines(path: Path) -> Iterator[tuple[bytes, Stored]]:
    """The lines of a file that was growing, up to the first that is not whole; none if there is no file."""
    if not os.path.lexists(path):
        return
    with open_regular(path) as file:
        for number, raw in enumerate(lines_of(file), start=1):
            try:
                yield raw, parse_line(raw, number)
            except CodecError:
                return


def value_of(group: int, max_rounds: int | None, trajectory: Trajectory, notes: Sequence[Notes] = ()) -> dict[str, Any]:
    """Return the value of a line."""
    stored = to_json(trajectory)
    for turn, noted in zip(stored["turns"], notes, strict=True) if notes else ():
        turn |= noted
    return {"format": FORMAT, "group": group, "max_rounds": max_rounds, "trajectory": stored}


def line_of(value: dict[str, Any]) -> str:
    """Return the line of a value, with its newline."""
    return json.dumps(value, separators=(",", ":"), allow_nan=False) + "\n"


def read(path: Path) -> Iterator[Stored]:
    """Yield the lines of a file, one at a time; raise StoreError at the first line that `save` did not write."""
    try:
        opened = open_regular(path)
    except OSError as error:
        raise StoreError(f"{path} cannot be read: {error.strerror}") from None
    with opened as file:
        for number, raw in enumerate(lines_of(file), start=1):
            try:
                yield parse_line(raw, number)
            except CodecError as error:
                raise StoreError(f"{path}:{number}: {error}") from None


def parse_line(raw: bytes, number: int) -> Stored:
    if not raw.endswith(b"\n"):
        raise CodecError("the line is cut short")
    fields = record(parse(raw), "line", ("format", "group", "max_rounds", "trajectory"))
    if fields["format"] != FORMAT:
        raise CodecError(stated_format(fields["format"]))
    return Stored(
        line=number,
        group=natural(fields["group"], "group"),
        max_rounds=None if fields["max_rounds"] is None else natural(fields["max_rounds"], "max_rounds"),
        trajectory=from_json(fields["trajectory"]),
    )


def stated_format(number: Any) -> str:
    """One line on a line of another format."""
    if number in range(1, FORMAT):
        return (
            f"it was written before a change of the format ({number}, now {FORMAT}): read it with the rlx that wrote it"
        )
    return f"format is {number!r:.40}, this version of rlx reads {FORMAT}"


def load(path: Path) -> list[Group]:
    """The groups of a file, as they were saved."""
    grouped = groupby(read(path), key=lambda stored: stored.group)
    groups = [tuple(stored.trajectory for stored in members) for _, members in grouped]
    if not groups:
        raise StoreError(f"{path} holds no episodes")
    return [Group(task=members[0].task, trajectories=members) for members in groups]
