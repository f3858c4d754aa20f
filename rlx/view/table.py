"""The table of a run's episodes as bytes on the wire: typed columns, which the browser filters and sorts. They are made
from the indexes of the run's files, and stored nowhere.

8 bytes `rlxview1`, the header's length (u4), the header as JSON with blanks behind it, then the columns, each of which
begins at a multiple of 8. A browser that has an earlier table is sent the rows that came since: the header names that
table (`base`), and says of each file how many first rows it has (`kept`), and how many strings (`kept_strings`).
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from rlx.runs.files import EpisodeFile
from rlx.runs.rows import Head, Row
from rlx.view.limits import dump

MAGIC = b"rlxview1"
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
    "new_tokens": "u4",
    "calls": "u4",
    "failed": "u4",
    "invalid": "u4",
    "only_action": "u4",
    "forks": "u4",
    "trained": "u4",
}
"""Columns that are sent, with their types."""
TYPES = {
    **dict.fromkeys(("offset", "size", "replies"), "<i8"),
    **dict.fromkeys(("sample", "parent"), "<i4"),
    **dict.fromkeys(("success", "status", "spare", "several"), "u1"),
    "reward": "<f8",
}
ROWS = np.dtype([(name, TYPES.get(name, "<u4")) for name in Row._fields])
"""Rows of an index in memory."""

Array = npt.NDArray[Any]
NO_ROWS: Mapping[str, Array] = {name: np.zeros(0) for name in SENT}


class FileRows(NamedTuple):
    """A file with the head and the rows of its index."""

    file: EpisodeFile
    head: Head
    rows: Array
    damage: str

    def row(self, place: int) -> Row:
        return Row._make(self.rows[place].tolist())

    def find(self, line: int) -> Row | None:
        """Return the row of a line; None if the line has none."""
        place = int(np.searchsorted(self.rows["line"], line))
        return self.row(place) if place < len(self.rows) and self.rows["line"][place] == line else None


@dataclass(frozen=True)
class Table:
    """Episodes of a run. `strings` are those of the run's former tables and new ones behind them."""

    etag: str = ""
    files: Sequence[FileRows] = ()
    strings: Sequence[str] = ()

    @cached_property
    def body(self) -> bytes:
        return pack(self)


def pack(table: Table, base: Table | None = None) -> bytes:
    """Return a table's bytes; with `base`, an earlier table of the run, only what that lacks."""
    names = {text: number for number, text in enumerate(table.strings)}
    earlier = {} if base is None else {part.file.name: part for part in base.files}
    num_equal = [count_equal_rows(part, earlier.get(part.file.name), names) for part in table.files]
    parts = [rows_after(number, part, num_equal[number], names) for number, part in enumerate(table.files)]
    first = [0, *np.cumsum([len(part.rows) for part in table.files]).tolist()]
    described = [
        {**describe(part, first[number]), "kept": num_equal[number]} for number, part in enumerate(table.files)
    ]
    columns, data, offset = [], [], 0
    for name, kind in SENT.items():
        column = np.concatenate([part[name] for part in parts] or [np.zeros(0)]).astype(f"<{kind}")
        columns.append({"name": name, "type": kind, "at": offset})
        data.append(padded(column.tobytes()))
        offset += len(data[-1])
    old = 0 if base is None else len(base.strings)
    sent = {"rows": first[-1], "sent": first[-1] - sum(num_equal), "kept_strings": old, "strings": table.strings[old:]}
    header = dump({**sent, "base": "" if base is None else base.etag, "files": described, "columns": columns})
    start = len(MAGIC) + 4
    header += b" " * (-(start + len(header)) % 8)
    return b"".join([MAGIC, struct.pack("<I", len(header)), header, *data])


def count_equal_rows(part: FileRows, old: FileRows | None, names: dict[str, int]) -> int:
    """Count the first rows of a file that an earlier table has as they are: all rows of that table, or none."""
    if old is None or old.rows is part.rows:
        return 0 if old is None else len(part.rows)
    num, now, before = len(old.rows), columns_of_file(0, part, names), columns_of_file(0, old, names)
    is_same = all(now[name][:num].tobytes() == before[name].tobytes() for name in SENT)
    return num if is_same else 0


def rows_after(number: int, part: FileRows, num: int, names: dict[str, int]) -> Mapping[str, Array]:
    """Return a file's columns after its first rows."""
    if num == len(part.rows):
        return NO_ROWS
    return {name: values[num:] for name, values in columns_of_file(number, part, names).items()}


def padded(data: bytes) -> bytes:
    return data + bytes(-len(data) % 8)


def describe(part: FileRows, first: int) -> dict[str, Any]:
    file = part.file
    described = {"name": file.name, "kind": file.kind, "step": file.step, "partial": file.is_partial}
    return {**described, "first": first, "rows": len(part.rows), "damage": part.damage}


def columns_of_file(number: int, part: FileRows, names: dict[str, int]) -> Mapping[str, Array]:
    """Return a file's columns; `names` are the strings of the answer, to which its own are added."""
    rows = part.rows
    strings = np.array([names.setdefault(text, len(names)) for text in part.head.strings] or [0], dtype="<u4")
    columns: dict[str, Array] = {name: rows[name] for name in SENT if name in Row._fields}
    task = np.minimum(rows["task"], len(strings) - 1)
    columns["task"] = strings[task]
    columns["env"] = strings[np.minimum(rows["env"], len(strings) - 1)]
    columns["file"] = np.full(len(rows), number, dtype="<u4")
    columns["group"] = groups_of(part)
    columns["forks"] = num_forks(columns["group"], rows["sample"], rows["parent"])
    with np.errstate(over="ignore"):
        columns["reward"] = rows["reward"].astype("<f4")
    return columns


def groups_of(part: FileRows) -> Array:
    """Return the group of each row: its number, or in a file that is being written, where all have 0, its task."""
    return part.rows["task" if part.file.is_partial else "group"]


def num_forks(group: Array, sample: Array, parent: Array) -> Array:
    """Return the number of forks that left each row, within its group."""
    keys = (group.astype(np.int64) << 32) + sample
    order = np.argsort(keys, kind="stable")
    left = (group.astype(np.int64) << 32)[parent >= 0] + parent[parent >= 0]
    place = np.searchsorted(keys, left, sorter=order)
    counts = np.zeros(len(keys), dtype="<u4")
    within = place < len(keys)
    rows, left = order[place[within]], left[within]
    np.add.at(counts, rows[keys[rows] == left], 1)
    return counts


def group_of(part: FileRows, line: int) -> int:
    """Return the group of a line that has a row."""
    return int(groups_of(part)[np.searchsorted(part.rows["line"], line)])


def members(part: FileRows, group: int) -> Iterator[Row]:
    """Yield the rows of a group, in the order of their lines."""
    for place in np.flatnonzero(groups_of(part) == group).tolist():
        yield part.row(place)
