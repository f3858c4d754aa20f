"""Open files that may come from anyone: regular ones alone, and none outside of a folder."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path
from typing import BinaryIO


def open_regular(path: Path) -> BinaryIO:
    """Open a regular file to read. OSError for any other: a pipe would be waited for, and a device has no end."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(errno.EINVAL, "it is no regular file", str(path))
    return open(descriptor, "rb")


def leads_out(path: Path, folder: Path) -> bool:
    """Return True if a link at this path leads out of the folder, or nowhere; False if nothing is there."""
    return os.path.lexists(path) and not is_inside(path, folder)


def is_inside(path: Path, folder: Path) -> bool:
    """Return True if a path leads to a place in the folder, whatever links it follows; False if it leads to none."""
    try:
        return path.resolve(strict=True).is_relative_to(folder.resolve(strict=True))
    except (OSError, RuntimeError, ValueError):
        return False
