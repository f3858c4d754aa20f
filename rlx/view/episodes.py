"""`api/episodes`: the episodes of a run as typed columns, which the browser filters and sorts.

8 bytes `rlxview1`, the header's length (u4), the header as JSON with blanks behind it, then the columns, each of which
begins at a multiple of 8. What was answered once is kept, so that a page that asks every second costs a look at the
folder. A folder that has no columns yet is read in the background.
"""

from __future__ import annotations

import hashlib
import struct
import threading
from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import TimeoutError as FutureTimeout
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from rlx.http import Answer, RefusedError
from rlx.record.columns import Columns, Progress, read_columns
from rlx.record.rows import FORMATS, Row
from rlx.view.limits import dump
from rlx.view.places import EpisodeFile, episode_files, find_file

MAGIC = b"rlxview1"
KIND = "application/octet-stream"
WAIT = 0.5
"""Seconds that a call waits for a folder to be read; then it tells how far that is."""
MOST_RUNS = 8
"""Runs whose columns stay in memory."""
SENT = {
    "file": "u4",
    "line": "u4",
    "group": "u4",
    "sample": "i4",
    "parent": "i4",
    "task": "u4",
    "env": "u4",
    "reward": "f4",
    "success": "u1",
    "status": "u1",
    "spare": "u1",
    "turns": "u4",
    "tokens": "u4",
    "own_tokens": "u4",
    "calls": "u4",
    "failed": "u4",
    "invalid": "u4",
    "only_action": "u4",
    "forks": "u4",
    "trained": "u4",
}
"""Columns that are sent, with their types."""
TYPES = {"Q": "<u8", "d": "<f8", "I": "<u4", "i": "<i4", "B": "u1"}
ROWS = np.dtype([(name, TYPES[letter]) for name, letter in zip(Row._fields, FORMATS, strict=True)])

Array = npt.NDArray[Any]


class FileColumns(NamedTuple):
    """A file with its columns."""

    file: EpisodeFile
    columns: Columns
    damage: str


@dataclass(frozen=True)
class Table:
    """Episodes of a run."""

    etag: str = ""
    files: Sequence[FileColumns] = ()
    body: bytes = b""


@dataclass
class Loaded:
    """Table of a run as it was last, and the job that reads it anew."""

    table: Table = field(default_factory=Table)
    job: Future[None] | None = None
    done: int = 0
    total: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)


@dataclass
class EpisodeTables:
    """Tables of episodes, by the folders of runs."""

    _loaded: OrderedDict[Path, Loaded] = field(default_factory=OrderedDict)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _pool: ThreadPoolExecutor = field(default_factory=lambda: ThreadPoolExecutor(2, thread_name_prefix="columns"))

    def answer(self, folder: Path, known: str = "") -> Answer:
        """Return the table; 304 where the caller knows it, 202 while it is read."""
        table = self.current(folder)
        if table is None:
            one = self.loaded(folder)
            return Answer(dump({"indexing": {"done": one.done, "of": one.total}}), status=202)
        etag = f'"{table.etag}"'
        headers = {"ETag": etag, "Cache-Control": "no-cache"}
        if known == etag:
            return Answer(b"", status=304, kind=KIND, headers=headers)
        return Answer(table.body, kind=KIND, headers=headers)

    def current(self, folder: Path) -> Table | None:
        """Return the table of a run as its files are now; None while they are read."""
        files, damage = episode_files(folder)
        etag, loaded = etag_of(files, damage), self.loaded(folder)
        with loaded.lock:
            if loaded.table.etag == etag:
                return loaded.table
            if loaded.job is None or loaded.job.done():
                loaded.job = self._pool.submit(load, loaded, files, etag)
            job = loaded.job
        try:
            job.result(WAIT)
        except FutureTimeout:
            return None
        return loaded.table

    def loaded(self, folder: Path) -> Loaded:
        with self._lock:
            found = self._loaded.pop(folder, None) or Loaded()
            self._loaded[folder] = found
            while len(self._loaded) > MOST_RUNS:
                self._loaded.popitem(last=False)
            return found

    def file(self, folder: Path, name: str) -> FileColumns:
        """Return the columns of one file of a run, by its name."""
        file = find_file(folder, name)
        known = next((one for one in self.loaded(folder).table.files if one.file.name == name), None)
        found = read_file(file, known, None)
        if found.damage and not found.columns.num_rows:
            raise RefusedError(422, found.damage)
        return found


def etag_of(files: Sequence[EpisodeFile], damage: Sequence[str]) -> str:
    """Return a digest of the files' names and states."""
    told = repr([(file.name, file.state) for file in files]) + repr(damage)
    return hashlib.sha256(told.encode()).hexdigest()[:24]


def load(loaded: Loaded, files: Sequence[EpisodeFile], etag: str) -> None:
    """Read the columns of all files, and pack them for the browser."""
    known = {one.file.name: one for one in loaded.table.files}
    before, loaded.total = 0, sum(file.state[0] for file in files)
    found = []
    for file in files:

        def progress(done: int, _: int, before: int = before) -> None:
            loaded.done = before + done

        found.append(read_file(file, known.get(file.name), progress))
        before += file.state[0]
        loaded.done = before
    loaded.table = Table(etag, found, pack(found))


def read_file(file: EpisodeFile, known: FileColumns | None, progress: Progress | None) -> FileColumns:
    if known is not None and known.file == file and not known.damage:
        return known
    try:
        columns = read_columns(file.path, progress, None if known is None else known.columns)
    except OSError as error:
        return FileColumns(file, Columns(), f"{file.name}: {error.strerror}")
    torn = "its last line is cut short" if columns.is_torn and not file.is_partial else ""
    return FileColumns(file, columns, "; ".join(filter(None, (columns.damage, torn))))


def pack(files: Sequence[FileColumns]) -> bytes:
    """Return the answer's bytes."""
    names: dict[str, int] = {}
    parts = [columns_of_file(number, one, names) for number, one in enumerate(files)]
    first = [0, *np.cumsum([len(part["line"]) for part in parts]).tolist()]
    told = [describe(one, first[number]) for number, one in enumerate(files)]
    columns, data, at = [], [], 0
    for name, kind in SENT.items():
        whole = np.concatenate([part[name] for part in parts] or [np.zeros(0)]).astype(f"<{kind}")
        columns.append({"name": name, "type": kind, "at": at})
        data.append(padded(whole.tobytes()))
        at += len(data[-1])
    header = dump({"rows": first[-1], "files": told, "strings": list(names), "columns": columns})
    start = len(MAGIC) + 4
    header += b" " * (-(start + len(header)) % 8)
    return b"".join([MAGIC, struct.pack("<I", len(header)), header, *data])


def padded(data: bytes) -> bytes:
    return data + bytes(-len(data) % 8)


def describe(one: FileColumns, first: int) -> dict[str, Any]:
    file = one.file
    told = {"name": file.name, "kind": file.kind, "step": file.step, "partial": file.is_partial}
    return {**told, "first": first, "rows": one.columns.num_rows, "damage": one.damage}


def columns_of_file(number: int, one: FileColumns, names: dict[str, int]) -> Mapping[str, Array]:
    """Return a file's columns; `names` are the strings of the answer, to which its own are added."""
    rows = np.frombuffer(one.columns.raw, ROWS)
    strings = np.array([names.setdefault(text, len(names)) for text in one.columns.strings] or [0], dtype="<u4")
    found: dict[str, Array] = {name: rows[name] for name in SENT if name in Row._fields}
    task = np.minimum(rows["task"], len(strings) - 1)
    found["task"] = strings[task]
    found["env"] = strings[np.minimum(rows["env"], len(strings) - 1)]
    found["file"] = np.full(len(rows), number, dtype="<u4")
    found["group"] = groups_of(one)
    found["forks"] = num_forks(found["group"], rows["sample"], rows["parent"])
    with np.errstate(over="ignore"):
        found["reward"] = rows["reward"].astype("<f4")
    return found


def groups_of(one: FileColumns) -> Array:
    """Return the group of each row: its number, or in a file that is being written, where all have 0, its task."""
    rows = np.frombuffer(one.columns.raw, ROWS)
    return rows["task"] if one.file.is_partial else rows["group"]


def num_forks(group: Array, sample: Array, parent: Array) -> Array:
    """Return the number of forks that left each row, within its group."""
    keys = (group.astype(np.int64) << 32) + sample
    order = np.argsort(keys, kind="stable")
    left = (group.astype(np.int64) << 32)[parent >= 0] + parent[parent >= 0]
    place = np.searchsorted(keys, left, sorter=order)
    found = np.zeros(len(keys), dtype="<u4")
    within = place < len(keys)
    rows, left = order[place[within]], left[within]
    np.add.at(found, rows[keys[rows] == left], 1)
    return found


def group_of(one: FileColumns, line: int) -> int:
    """Return the group of a line that has a row."""
    lines = np.frombuffer(one.columns.raw, ROWS)["line"]
    return int(groups_of(one)[np.searchsorted(lines, line)])


def members(one: FileColumns, group: int) -> Iterator[Row]:
    """Yield the rows of a group, in the order of their lines."""
    for place in np.flatnonzero(groups_of(one) == group).tolist():
        yield one.columns.row(place)
