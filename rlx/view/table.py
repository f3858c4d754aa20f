"""The table of a run's episodes as bytes: typed columns, which the browser filters and sorts.

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

from rlx.runs.columns import Columns
from rlx.runs.files import EpisodeFile
from rlx.runs.rows import FORMATS, Row
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
NO_ROWS: Mapping[str, Array] = {name: np.zeros(0) for name in SENT}


class FileColumns(NamedTuple):
    """A file with its columns."""

    file: EpisodeFile
    columns: Columns
    damage: str


@dataclass(frozen=True)
class Table:
    """Episodes of a run. `strings` are those of the run's former tables and new ones behind them."""

    etag: str = ""
    files: Sequence[FileColumns] = ()
    strings: Sequence[str] = ()

    @cached_property
    def body(self) -> bytes:
        return pack(self)


def pack(table: Table, base: Table | None = None) -> bytes:
    """Return a table's bytes; with `base`, an earlier table of the run, only what that lacks."""
    names = {text: number for number, text in enumerate(table.strings)}
    known = {} if base is None else {one.file.name: one for one in base.files}
    kept = [count_equal_rows(one, known.get(one.file.name), names) for one in table.files]
    parts = [rows_after(number, one, kept[number], names) for number, one in enumerate(table.files)]
    first = [0, *np.cumsum([one.columns.num_rows for one in table.files]).tolist()]
    told = [{**describe(one, first[number]), "kept": kept[number]} for number, one in enumerate(table.files)]
    columns, data, at = [], [], 0
    for name, kind in SENT.items():
        whole = np.concatenate([part[name] for part in parts] or [np.zeros(0)]).astype(f"<{kind}")
        columns.append({"name": name, "type": kind, "at": at})
        data.append(padded(whole.tobytes()))
        at += len(data[-1])
    old = 0 if base is None else len(base.strings)
    sent = {"rows": first[-1], "sent": first[-1] - sum(kept), "kept_strings": old, "strings": table.strings[old:]}
    header = dump({**sent, "base": "" if base is None else base.etag, "files": told, "columns": columns})
    start = len(MAGIC) + 4
    header += b" " * (-(start + len(header)) % 8)
    return b"".join([MAGIC, struct.pack("<I", len(header)), header, *data])


def count_equal_rows(one: FileColumns, old: FileColumns | None, names: dict[str, int]) -> int:
    """Count the first rows of a file that an earlier table has as they are: all rows of that table, or none."""
    if old is None or old.columns is one.columns:
        return 0 if old is None else one.columns.num_rows
    num, now, before = old.columns.num_rows, columns_of_file(0, one, names), columns_of_file(0, old, names)
    is_same = all(now[name][:num].tobytes() == before[name].tobytes() for name in SENT)
    return num if is_same else 0


def rows_after(number: int, one: FileColumns, num: int, names: dict[str, int]) -> Mapping[str, Array]:
    """Return a file's columns after its first rows."""
    if num == one.columns.num_rows:
        return NO_ROWS
    return {name: values[num:] for name, values in columns_of_file(number, one, names).items()}


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
