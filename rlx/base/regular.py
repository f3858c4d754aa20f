"""Open files of folders that may come from anyone: a run's, an index's, the cache's.

Only regular files are opened: a pipe would be waited for, and a device has no end. The folder itself may be reached
through links, as outputs may stand on another disk. Inside the folder no link is followed, for reading or for writing:
a stranger's folder could name any file of the user. A file that is read at once is of bounded size.

Every module that reads or writes such a folder does it through these functions (tests/test_regular_files.py).
"""

from __future__ import annotations

import errno
import os
import secrets
import stat
from collections.abc import Iterator
from contextlib import suppress
from io import BufferedReader, BufferedWriter
from pathlib import Path, PurePath
from typing import BinaryIO

LARGEST = 2**24
"""Bytes of a file that is read at once."""
BLOCK = 2**16
"""Bytes that are asked for of a small file, which may grow while it is read."""
LONGEST = 2**26
"""Bytes of a line."""
ASIDE = ".part"
"""The end of the name of a file that is not whole yet."""
IS_LINK = "this is a link, no regular file: no link is followed inside a run, an index or a cache"
IS_OTHER = "this is no regular file"
IRREGULAR = {errno.ELOOP: IS_LINK, errno.ENXIO: IS_OTHER, errno.EISDIR: IS_OTHER}
"""Messages for errors of opening what is no regular file."""


class IrregularError(OSError):
    """A link, or anything else that is no regular file of bounded size; the message is one line with its place."""

    exit_code = 2

    def __init__(self, number: int, reason: str, path: Path | str) -> None:
        super().__init__(number, reason, str(path))

    def __str__(self) -> str:
        return f"{self.filename}: {self.strerror}"


def inside(folder: Path, *names: str) -> Path:
    """Return the path of a file or a folder inside a folder; OSError where a part of the way, or its end, is a link."""
    path = folder
    for piece in PurePath(*names).parts:
        if piece in ("..", os.sep):
            raise IrregularError(errno.EINVAL, f"{os.path.join(*names)} is no place inside this folder", folder)
        path = path / piece
        if path.is_symlink():
            raise IrregularError(errno.ELOOP, IS_LINK, path)
    return path


def make_inside(folder: Path, *names: str) -> Path:
    """Make a folder inside a folder, if it is not there, and return its path; OSError for a link on the way."""
    path = inside(folder, *names)
    path.mkdir(parents=True, exist_ok=True)
    return path


def open_regular(path: Path) -> BufferedReader:
    """Open a regular file to read; OSError for a link, and for anything else."""
    return open(descriptor(path, os.O_RDONLY), "rb")


def make_parent(path: Path) -> None:
    """Make the folder of a file, if it is not there; OSError where it is a link."""
    make_inside(path.parent.parent, path.parent.name)


def open_to_append(path: Path) -> BufferedWriter:
    """Open a regular file to append to; make it where there is none."""
    return open(descriptor(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT), "ab")


def open_new(path: Path) -> BufferedWriter:
    """Open a file that is not there yet; FileExistsError where anything is, a link to nothing too."""
    return open(path, "xb")


def descriptor(path: Path | str, flags: int) -> int:
    """Open a regular file and return its descriptor; OSError for a link, and for anything else."""
    try:
        number = os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, 0o666)
    except OSError as error:
        if error.errno not in IRREGULAR:
            raise
        raise IrregularError(error.errno, IRREGULAR[error.errno], path) from None
    except ValueError as error:  # a null character in the name
        raise IrregularError(errno.EINVAL, str(error), path) from None
    if not stat.S_ISREG(os.fstat(number).st_mode):
        os.close(number)
        raise IrregularError(errno.EINVAL, IS_OTHER, path)
    return number


def read_bounded(path: Path, largest: int = LARGEST) -> bytes:
    """Read a regular file of at most so many bytes; OSError for any other."""
    with open_regular(path) as file:
        size = os.fstat(file.fileno()).st_size
        if size > largest:
            raise too_large(path, largest)
        data = file.read(min(largest, max(size, BLOCK)) + 1)  # memory for so many bytes is taken at once
    if len(data) > largest:
        raise too_large(path, largest)
    return data


def too_large(path: Path, largest: int) -> IrregularError:
    return IrregularError(errno.EFBIG, f"it has more than {largest:,} bytes", path)


def read_text(path: Path, largest: int = LARGEST) -> str:
    """Read a regular file of text in UTF-8; OSError, or ValueError for other text."""
    return read_bounded(path, largest).decode("utf-8")


def lines_of(file: BinaryIO, longest: int = LONGEST) -> Iterator[bytes]:
    """Yield the lines of a file. A longer one comes in pieces, of which the last alone has a newline."""
    return iter(lambda: file.readline(longest), b"")


def is_regular(path: Path) -> bool:
    """Return True if a regular file is there, and no link."""
    with suppress(OSError, ValueError):
        return stat.S_ISREG(os.lstat(path).st_mode)
    return False


def require_regular(path: Path) -> None:
    """Refuse a place at which something else than a regular file is; nothing may be there."""
    if os.path.lexists(path) and not is_regular(path):
        raise IrregularError(errno.EINVAL, IS_LINK if path.is_symlink() else IS_OTHER, path)


def regular_files(folder: Path) -> Iterator[Path]:
    """Yield the regular files of a folder and of those below it; OSError for a link, a pipe or a device."""
    for place, below, names in os.walk(folder):
        for name in below:
            inside(Path(place), name)
        for name in names:
            path = inside(Path(place), name)
            if not is_regular(path):
                raise IrregularError(errno.EINVAL, IS_OTHER, path)
            yield path


def write_aside(path: Path, content: str | bytes, *, sync: bool = True) -> None:
    """Write a file so that nobody sees it half written; an error names the file. Several may write the
    same at once, as jobs that share a cache do: each writes aside under a name of its own, and the last stands. With
    `sync` the content is on the disk before the file has its name."""
    aside = path.with_name(f".{path.name}.{secrets.token_hex(4)}{ASIDE}")
    try:
        with open_new(aside) as file:
            file.write(content.encode("utf-8") if isinstance(content, str) else content)
            file.flush()
            if sync:
                os.fsync(file.fileno())
        os.replace(aside, path)
    except OSError as error:
        with suppress(OSError):
            aside.unlink(missing_ok=True)
        raise OSError(error.errno, f"{path} could not be written: {error.strerror}", str(path)) from error
