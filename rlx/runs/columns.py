"""Typed columns of a file of episodes, stored beside it as `.NAME.columns`: a row of fixed size for each line.

    magic, length of the header      8 + 4 bytes
    header, JSON                     bytes of the file that it covers, lines, names, damaged lines, checksum
    rows                             `Row`, one after the other

The checksum is of the beginning and the end of the covered bytes. A file that grew keeps its rows, and only the lines
that follow are parsed; a file that was cut back or replaced is read again. So are older files, which have no columns.
Nothing here trusts its input, as a run folder may come from anyone.
"""

from __future__ import annotations

import hashlib
import json
import os
import secrets
import struct
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, BinaryIO

from rlx.base.regular import ASIDE, LARGEST, LONGEST, open_new, open_regular, read_bounded
from rlx.runs.results import Measured, measured_in
from rlx.runs.rows import MOST_NAMED, OTHERS, ROW, UNREADABLE, Builder, Row, measure_of

MAGIC = b"rlxcols1"
LENGTH = struct.Struct("<I")
MOST_BYTES = 2**31
"""Bytes of a file of columns, which has fewer than the episodes that it is of."""
SKIPPED = 2**30
"""Bytes of a line after which the rest of its file is not read."""
HEAD, TAIL = 4096, 65536
"""Bytes at the beginning and at the end of what is covered that the checksum is of."""
MORE = 8
"""Columns are written again once the new bytes are this part of the covered ones: 1/8."""
Progress = Callable[[int, int], None]
"""Function of the bytes that were read and of all."""


@dataclass(frozen=True, kw_only=True)
class Columns:
    """Columns of a file, up to its last whole line."""

    state: tuple[int, int] = (-1, -1)
    """Size and time of the file when it was read."""
    covers: int = 0
    """Bytes of its whole lines."""
    lines: int = 0
    check: str = ""
    measured: str = ""
    """Agents by which rewards were chosen, where several act (`measure_of`)."""
    strings: tuple[str, ...] = ()
    """Names of tasks and environments."""
    replies: tuple[str, ...] = ()
    damaged: tuple[int, ...] = ()
    """Numbers of the first lines that cannot be read."""
    num_damaged: int = 0
    raw: bytes = b""
    """Rows, one after the other."""

    @property
    def num_rows(self) -> int:
        return len(self.raw) // ROW.size

    @property
    def is_torn(self) -> bool:
        """The file ends within a line: one being written, or one that was cut."""
        return self.state[0] > self.covers

    def rows(self) -> Iterator[Row]:
        return map(Row._make, ROW.iter_unpack(self.raw))

    def row(self, place: int) -> Row:
        return Row._make(ROW.unpack_from(self.raw, place * ROW.size))

    def name(self, number: int) -> str:
        return self.strings[number] if number < len(self.strings) else ""

    @cached_property
    def damage(self) -> str:
        """Return what cannot be read, in one line; empty where all can."""
        if not self.num_damaged:
            return ""
        named = ", ".join(map(str, self.damaged)) + ("…" if self.num_damaged > len(self.damaged) else "")
        return f"{self.num_damaged} of {self.lines} lines cannot be read: {named}"

    def find(self, line: int) -> Row | None:
        """Return the row of a line; None if the line has none."""
        low, high = 0, self.num_rows
        while low < high:
            middle = (low + high) // 2
            row = self.row(middle)
            if row.line == line:
                return row
            low, high = (middle + 1, high) if row.line < line else (low, middle)
        return None


def columns_path(path: Path) -> Path:
    return path.with_name(f".{path.name}.columns")


def read_columns(path: Path, progress: Progress | None = None, known: Columns | None = None) -> Columns:
    """Return the columns of a file as it is now, from `known` or stored ones where these hold; OSError if the file
    cannot be read. New ones are stored where the folder can be written."""
    with open_regular(path) as file:
        state = state_of(file)
        stored = known if known is not None else load_columns(path)
        if stored is not None and not holds(stored, path, file, state):
            stored = None if known is None else load_columns(path)
            stored = stored if stored is not None and holds(stored, path, file, state) else None
        if stored is not None and stored.state == state:
            return stored
        start = stored or Columns()
        found = extend(start, file, state, lambda: measured_in(path.parent.parent), progress)
    if found.covers - start.covers > start.covers // MORE:
        write_columns(path, found)
    return found


def holds(stored: Columns, path: Path, file: BinaryIO, state: tuple[int, int]) -> bool:
    """Return True if the file still begins with what the columns cover."""
    if stored.measured and stored.measured != measure_of(measured_in(path.parent.parent)):
        return False
    return stored.state == state or (stored.covers <= state[0] and check_of(file, stored.covers) == stored.check)


def begin(start: Columns, measured: Callable[[], Measured]) -> Builder:
    """Return a builder that goes on after columns."""
    builder = Builder(measured, start.strings, start.replies)
    builder.damaged, builder.num_damaged = list(start.damaged), start.num_damaged
    builder.covers, builder.lines, builder.raw = start.covers, start.lines, bytearray(start.raw)
    return builder


def finish(builder: Builder, state: tuple[int, int], check: str, measured: str = "") -> Columns:
    """Return the columns that were built; `measured` is that of the columns that they go on after."""
    return Columns(
        state=state,
        covers=builder.covers,
        lines=builder.lines,
        check=check,
        measured=measure_of(builder.measured) if builder.has_measured else measured,
        strings=tuple(builder.strings),
        replies=tuple(builder.replies)[:OTHERS],
        damaged=tuple(builder.damaged),
        num_damaged=builder.num_damaged,
        raw=bytes(builder.raw),
    )


def extend(
    start: Columns,
    file: BinaryIO,
    state: tuple[int, int],
    measured: Callable[[], Measured],
    progress: Progress | None = None,
) -> Columns:
    """Return columns with the whole lines that follow those covered."""
    builder = begin(start, measured)
    file.seek(start.covers)
    for raw, size in complete_lines(file, state[0] - start.covers):
        builder.add(size, lambda raw=raw: json.loads(raw))  # type: ignore[misc]
        if progress is not None:
            progress(builder.covers, state[0])
    return finish(builder, state, check_of(file, builder.covers), start.measured)


def complete_lines(file: BinaryIO, left: int) -> Iterator[tuple[bytes, int]]:
    """Yield the complete lines of the next `left` bytes, with their sizes; `-` for a line that is too long. Stop at a
    line that does not end within SKIPPED bytes."""
    while left > 0:
        raw = file.readline(min(left, LONGEST))
        size, end = len(raw), raw[-1:]
        while end not in (b"", b"\n") and size < min(left, SKIPPED):
            more = file.readline(min(left - size, LONGEST))
            size, raw, end = size + len(more), b"-\n", more[-1:]
        if end != b"\n":
            return
        yield raw, size
        left -= size


def bytes_of(file: BinaryIO, row: Row) -> bytes:
    """Return the line of a row, with its newline; ValueError where the columns say what cannot be."""
    if row.size > LONGEST or row.at >= 2**63:
        raise ValueError(f"line {row.line} has {row.size:,} bytes")
    file.seek(row.at)
    return file.read(row.size)


def check_of(file: BinaryIO, covers: int) -> str:
    """Return a checksum of the beginning and the end of the covered bytes."""
    file.seek(0)
    head = file.read(min(HEAD, covers))
    file.seek(max(0, covers - TAIL))
    return hashlib.sha256(head + file.read(min(TAIL, covers))).hexdigest()[:32]


def state_of(file: BinaryIO) -> tuple[int, int]:
    found = os.fstat(file.fileno())
    return found.st_size, found.st_mtime_ns


def load_columns(path: Path) -> Columns | None:
    """Return the stored columns of a file; None where there are none that are whole."""
    try:
        data = read_bounded(columns_path(path), min(os.lstat(path).st_size + LARGEST, MOST_BYTES))
        return columns_of(data)
    except (OSError, *UNREADABLE, struct.error):
        return None


def num_lines_of(path: Path) -> int | None:
    """Return the number of a file's lines from the header of its columns; None unless these are current."""
    try:
        with open_regular(columns_path(path)) as file:
            head = file.read(len(MAGIC) + LENGTH.size)
            (length,) = LENGTH.unpack_from(head, len(MAGIC))
            header = json.loads(file.read(min(length, MOST_BYTES)))
        now = os.lstat(path)
        is_current = head.startswith(MAGIC) and header["state"] == [now.st_size, now.st_mtime_ns]
        return int(header["lines"]) if is_current else None
    except (OSError, *UNREADABLE, struct.error):
        return None


def columns_of(data: bytes) -> Columns:
    (length,) = LENGTH.unpack_from(data, len(MAGIC))
    begin = len(MAGIC) + LENGTH.size
    header = json.loads(data[begin : begin + length])
    found = Columns(
        state=(int(header["state"][0]), int(header["state"][1])),
        covers=int(header["covers"]),
        lines=int(header["lines"]),
        check=str(header["check"]),
        measured=str(header["measured"]),
        strings=tuple(map(str, header["strings"])),
        replies=tuple(map(str, header["replies"])),
        damaged=tuple(map(int, header["damaged"]))[:MOST_NAMED],
        num_damaged=int(header["num_damaged"]),
        raw=data[begin + length :],
    )
    if data[: len(MAGIC)] != MAGIC or len(found.raw) != header["rows"] * ROW.size or found.covers < 0:
        raise ValueError("no columns")
    return found


def pack_columns(columns: Columns) -> bytes:
    header = json.dumps(asdict(replace(columns, raw=b"")) | {"raw": "", "rows": columns.num_rows}).encode()
    return MAGIC + LENGTH.pack(len(header)) + header + columns.raw


def write_columns(path: Path, columns: Columns) -> None:
    """Store the columns of a file beside it. Nothing happens if they cannot be written."""
    aside = columns_path(path).with_suffix(f".{secrets.token_hex(4)}{ASIDE}")
    with suppress(OSError):
        try:
            with open_new(aside) as file:
                file.write(pack_columns(columns))
            os.replace(aside, columns_path(path))
        finally:
            aside.unlink(missing_ok=True)


def save_columns(path: Path, lines: Iterable[tuple[int, Mapping[str, Any]]]) -> None:
    """Store the columns of a file that was just written, from its lines' sizes and values."""
    builder = Builder(lambda: measured_in(path.parent.parent))
    for size, value in lines:
        builder.add(size, lambda value=value: value)  # type: ignore[misc]
    with suppress(OSError), open_regular(path) as file:
        write_columns(path, finish(builder, state_of(file), check_of(file, builder.covers)))
