"""Where each line of a file begins, so that any of them is read at once: `.NAME.index` beside it.

It holds the size and time of the file that it is of and how many lines that has, then eight bytes a line. One that is
missing, stale or damaged is made again; where nothing can be written the file is read up to the line.
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

HEADER = struct.Struct("<8sQQQ")
MAGIC = b"rlxlines"
BLOCK = 1 << 20
"""Bytes read at once."""


class NoLineError(LookupError):
    """The file has no such line; the message says how many it has."""


def line_at(path: Path, number: int) -> bytes:
    """Line `number` of a file, from 1, with its newline."""
    with open(path, "rb") as file:
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
    """Where a line begins, by an index that is of the file as it is; None where there is none."""
    try:
        with open(index_path(path), "rb") as index:
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
    """What tells a file from what it was when it was indexed."""
    found = path.stat()
    return [MAGIC, found.st_size, found.st_mtime_ns]


def write_index(path: Path) -> None:
    """Make a file's index, whatever was there; nothing where it cannot be written."""
    aside = index_path(path).with_suffix(f".{secrets.token_hex(4)}.part")
    with suppress(OSError):
        try:
            with open(aside, "xb") as index:
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
    """Where lines begin, a block of the file at a time."""
    at, is_start = 0, True
    with open(path, "rb") as file:
        while block := file.read(BLOCK):
            starts = [at] if is_start else []
            place = block.find(b"\n")
            while 0 <= place < len(block) - 1:
                starts.append(at + place + 1)
                place = block.find(b"\n", place + 1)
            yield starts
            at, is_start = at + len(block), block.endswith(b"\n")
