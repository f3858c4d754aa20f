"""Find stored episodes in a run's folder, line by line, by what they may be chosen by."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from rlx.base.limits import MistakeError
from rlx.base.regular import open_regular
from rlx.runs.folder import STEP
from rlx.runs.index import bytes_of, open_index
from rlx.runs.results import (
    UNKNOWN,
    AgentResult,
    Measured,
    is_one,
    measured_in,
    results_of_agents,
    stored_earned,
)
from rlx.runs.rows import OTHERS, STATUSES, UNREADABLE, Head, Row, short_name
from rlx.runs.store import StoreError, stored_files

FOREIGN = "it is not as a run wrote it"


class ShowError(MistakeError):
    """Error for an episode that does not exist; the message is one line with the available episodes."""


@dataclass(frozen=True, kw_only=True)
class StoredLine:
    """One stored episode before it is read whole: what it may be chosen by."""

    number: int
    raw: bytes = b""
    """The line; empty where a row of the index was read in its place."""
    task: str
    """Name of the task; a long one is cut (`short_name`)."""
    sample: int
    success: bool
    """Success of the measured agent, and its `reward`."""
    status: str
    reward: float
    num_turns: int
    parent: int | None
    """Sample that a fork left."""
    replies: frozenset[str] = frozenset()
    """Metrics of the protocol that are above 0 in a turn, by their names without `reply/`."""
    results: tuple[AgentResult, ...] = ()
    """Results of the agents, the measured one first; empty where there is one agent."""


@dataclass(frozen=True, kw_only=True)
class Wanted:
    """Choice among the episodes of a file: those of a task or sample, solved or failed, with a reply whose metric
    `reply/NAME` is above 0; all by default."""

    task: str | None = None
    sample: int | None = None
    success: bool | None = None
    reply: str | None = None

    def takes(self, line: StoredLine) -> bool:
        task = None if self.task is None else short_name(self.task)
        wanted = ((task, line.task), (self.sample, line.sample), (self.success, line.success))
        is_said = self.reply is None or self.reply.removeprefix("reply/") in line.replies
        return is_said and all(choice is None or choice == value for choice, value in wanted)


def read_line(file: Path, number: int) -> StoredLine:
    """Return a line of a file, found by its index."""
    with open_index(file) as index:
        head, row = index.head, index.find(number)
    if number > head.lines + head.is_torn:
        raise ShowError(f"{file} has no line {number}: it has {head.lines}")
    try:
        if row is None:
            raise ValueError("the line has no row")
        with open_regular(file) as source:
            return glance(bytes_of(source, row), number, measured_in(file.parent.parent))
    except UNREADABLE:
        raise StoreError(f"{file}:{number}: {FOREIGN}") from None


def find_file(folder: Path, label: str = "") -> Path:
    """`12` or `step-000012` for a training step, `eval` or `start` for an evaluation; the last there is if not said."""
    files = stored_files(folder)
    name = f"{STEP}{label.lstrip('0'):0>6}" if label.isascii() and label.isdigit() else label
    matches = [file for file in files if file.stem == name] or [file for file in files if file.stem.startswith(name)]
    preferred = [file for file in matches if label or not file.stem.startswith(("start", "untrained"))]
    if not matches:
        raise ShowError(f"{folder} has no episodes of {label!r}; there is {', '.join(file.stem for file in files)}")
    return (preferred or matches)[-1 if not label else 0]


def scan(file: Path, wanted: Wanted) -> Iterator[StoredLine]:
    """The episodes that are chosen, one at a time, from the file's index. StoreError at a line that is damaged."""
    measured = measured_in(file.parent.parent)
    with open_index(file) as index, open_regular(file) as source:
        head = index.head
        damaged = next(iter(head.damaged), head.lines + 1 if head.is_torn else None)
        for row in index.rows(last=damaged or head.lines):
            line = line_of_row(row, head)
            if row.several or row.replies >> OTHERS:  # the row has not all that is shown or asked of these
                line = glance(bytes_of(source, row), row.line, measured)
            if wanted.takes(line):
                yield line
    if damaged is not None:
        raise StoreError(f"{file}:{damaged}: {FOREIGN}")


def line_of_row(row: Row, head: Head) -> StoredLine:
    return StoredLine(
        number=row.line,
        task=head.strings[row.task],
        sample=row.sample,
        success=bool(row.success),
        status=STATUSES[min(row.status, len(STATUSES) - 1)],
        reward=row.reward,
        num_turns=row.turns,
        parent=None if row.parent < 0 else row.parent,
        replies=frozenset(name for bit, name in enumerate(head.replies) if row.replies >> bit & 1),
    )


def glance(raw: bytes, number: int, measured: Measured = UNKNOWN) -> StoredLine:
    """Return what a line may be chosen by, without reading its tokens' columns."""
    trajectory = json.loads(raw)["trajectory"]
    success, turns = bool(trajectory["success"]), [stored_earned(turn) for turn in trajectory["turns"]]
    results = results_of_agents(turns, success)
    reward = sum(turn.reward for turn in turns)
    if not is_one(results):
        agent = measured.of(str(trajectory["task"].get("env", "")), results)
        results.sort(key=lambda result: result.agent != agent)
        reward, success = results[0].reward, results[0].success
    return StoredLine(
        number=number,
        raw=raw,
        task=short_name(str(trajectory["task"]["id"])),
        sample=int(trajectory["sample"]),
        success=success,
        status=str(trajectory["status"]),
        reward=reward,
        num_turns=len(trajectory["turns"]),
        parent=int(trajectory["fork"]["parent"]) if "fork" in trajectory else None,
        replies=frozenset(
            name.rpartition("/")[2]
            for turn in trajectory["turns"]
            for name, value in turn.get("reply", {}).items()
            if value > 0
        ),
        results=() if is_one(results) else tuple(results),
    )


def pick(file: Path, wanted: Wanted, *, index: int = 1, by: str = "") -> StoredLine:
    """The `index`-th of the chosen episodes; or the `best` or `worst` by reward, the first of equals."""
    if by:
        chosen_line = extreme(scan(file, wanted), sign=1 if by == "best" else -1)
    else:
        chosen_line = next((line for place, line in enumerate(scan(file, wanted), start=1) if place == index), None)
    if chosen_line is None:
        raise ShowError(f"{file.name} has no such episode: `--list` shows those it has")
    return chosen_line if chosen_line.raw else read_line(file, chosen_line.number)


def extreme(lines: Iterable[StoredLine], sign: int) -> StoredLine | None:
    return max(lines, key=lambda line: sign * line.reward, default=None)
