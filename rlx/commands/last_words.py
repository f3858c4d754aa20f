"""Error messages of a command, and its behaviour when its output has no destination."""

from __future__ import annotations

import errno
import io
import os
import re
import sys

IN_PLACE = {
    errno.EEXIST: "there is a file, where a folder should be: choose another place",
    errno.ENOTDIR: "part of it is a file, where a folder should be: choose another place",
    errno.EISDIR: "this is a folder, where a file should be",
}
"""Shorter messages for errors of the file system."""
NO_MEMORY = re.compile(r"out of memory|(can't|[Cc]annot|[Ff]ailed to|[Uu]nable to) (map|allocate|mmap)|bad_alloc")
NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)


def fail(message: str, code: int) -> int:
    """Print one line on stderr and return the exit code."""
    from rlx.base.console import one_line

    print(f"rlx: {one_line(message, 600)}", file=sys.stderr)
    return code


def one_line_of(error: Exception) -> str | None:
    """Return the message of an expected error: of rlx's exceptions, of the file system, of exhausted memory. None for
    any other, which is a bug."""
    if type(error).__module__.startswith("rlx."):
        return str(error)
    if isinstance(error, MemoryError) or (isinstance(error, (RuntimeError, OSError)) and NO_MEMORY.search(str(error))):
        first = (str(error).strip() or "out of memory").splitlines()[0]
        return f"this process has no more memory: {first:.200}; give it more, or make the run smaller (`rlx plan`)"
    if not isinstance(error, OSError) or error.strerror is None:
        return None
    if error.filename is not None:
        path = os.fsdecode(error.filename) if isinstance(error.filename, (str, bytes, os.PathLike)) else ""
        return (
            error.strerror
            if path in error.strerror
            else f"{path:.200}: {IN_PLACE.get(error.errno or 0, error.strerror)}"
        )
    if error.errno in NO_ROOM:
        print_no_more()
        return f"the output cannot be written: {error.strerror}"
    return None


def print_no_more() -> None:
    """Discard the remaining output, so Python's last flush cannot fail."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def open_streams() -> None:
    """Let output take any text: a closed stream becomes /dev/null, and a stream escapes letters it cannot encode."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115
        elif isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
