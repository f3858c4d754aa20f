"""Index of a file's lines, stored beside it as `.NAME.index`, so that any line is read at once.

The index holds the size and time of its file, the number of lines, then eight bytes per line. A missing, stale or
damaged index is built again. In a read-only folder the file is read up to the line instead.
"""

from __future__ import annotations

import os
import secrets
import struct
from collections.abc import Iterator
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO

from rlx.regular import open_new, open_regular

HEADER = struct.Struct("<8sQQQ")
MAGIC = b"rlxlines"
BLOCK = 1 << 20
"""Bytes read at once."""


class NoLineError(LookupError):
    """Request of a line beyond the end of a file; the message gives the number of lines."""


def line_at(path: Path, number: int) -> bytes:
    """Return line `number` of a file, from 1, with its newline."""
    with open_regular(path) as file:
        start = find_start(path, file, number)
        if start is None:
            write_index(path)
            start = find_start(path, file, number)
        if start is None:  # the folder cannot be written to
            file.seek(0)
            return next(islice(file, number - 1, None), b"") or refuse(path, number)
        file.seek(start)
        return file.readline()


def find_start(path: Path, file: BinaryIO, number: int) -> int | None:
    """Return the offset of a line from a current index; None without one."""
    try:
        with open_regular(index_path(path)) as index:
            *of, num_lines = HEADER.unpack(index.read(HEADER.size))
            if of != state_of(path) or os.fstat(index.fileno()).st_size != HEADER.size + 8 * num_lines:
                return None
            if number > num_lines:
                refuse(path, number, num_lines)
            index.seek(HEADER.size + 8 * (number - 1))
            (start,) = struct.unpack("<Q", index.read(8))
    except (OSError, struct.error):
        return None
    return start if begins_line(file, start) else None


def num_lines_of(path: Path) -> int | None:
    """Return the number of a file's lines from a current index; None without one."""
    try:
        *of, num_lines = HEADER.unpack(read_start(index_path(path), HEADER.size))
        return num_lines if of == state_of(path) else None
    except (OSError, struct.error):
        return None


def read_start(path: Path, num: int) -> bytes:
    with open_regular(path) as file:
        return file.read(num)


def refuse(path: Path, number: int, num_lines: int | None = None) -> bytes:
    has = "fewer lines" if num_lines is None else f"{num_lines} of them" if num_lines != 1 else "one"
    raise NoLineError(f"{path} has no line {number}: it has {has}")


def begins_line(file: BinaryIO, start: int) -> bool:
    if start == 0:
        return True
    file.seek(start - 1)
    return file.read(1) == b"\n"


def index_path(path: Path) -> Path:
    return path.with_name(f".{path.name}.index")


def state_of(path: Path) -> list[Any]:
    """Return the values by which an index recognises the unchanged file."""
    found = os.lstat(path)
    return [MAGIC, found.st_size, found.st_mtime_ns]


def write_index(path: Path) -> None:
    """Build a file's index and replace any older one. Nothing happens if it cannot be written."""
    aside = index_path(path).with_suffix(f".{secrets.token_hex(4)}.part")
    with suppress(OSError):
        try:
            with open_new(aside) as index:
                state, num_lines = state_of(path), 0
                index.write(bytes(HEADER.size))
                for starts in line_starts(path):
                    index.write(struct.pack(f"<{len(starts)}Q", *starts))
                    num_lines += len(starts)
                index.seek(0)
                index.write(HEADER.pack(*state, num_lines))
            os.replace(aside, index_path(path))
        finally:
            aside.unlink(missing_ok=True)


def line_starts(path: Path) -> Iterator[list[int]]:
    """Yield the offsets of lines, one block of the file at a time."""
    at, is_start = 0, True
    with open_regular(path) as file:
        while block := file.read(BLOCK):
            starts = [at] if is_start else []
            place = block.find(b"\n")
            while 0 <= place < len(block) - 1:
                starts.append(at + place + 1)
                place = block.find(b"\n", place + 1)
            yield starts
            at, is_start = at + len(block), block.endswith(b"\n")
