"""YAML that may come from anyone: plain values, of bounded size, depth and number, from a regular file."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path
from typing import Any

import yaml

LARGEST = 2**24
"""Bytes of a file."""
DEEPEST = 100
"""Values within each other."""
SCALARS = (str, int, float, bool, type(None))


class PlainError(ValueError):
    """Text that is YAML, and no plain values."""


class Loader(yaml.SafeLoader):
    """Without aliases, of which a few lines expand to more than memory holds: rlx writes none."""

    depth = 0

    def compose_node(self, parent: Any, index: Any) -> Any:
        if self.check_event(yaml.events.AliasEvent):
            raise PlainError("it has aliases (*name)")
        self.depth += 1
        if self.depth > DEEPEST:
            raise PlainError(f"it is nested more than {DEEPEST} deep")
        node = super().compose_node(parent, index)
        self.depth -= 1
        return node


def read_plain(path: Path) -> Any:
    """Read lists, mappings with text keys, text, numbers, booleans and nulls; OSError, PlainError or YAMLError."""
    value = yaml.load(read_bounded(path, LARGEST).decode("utf-8"), Loader)
    require_plain(value)
    return value


def read_bounded(path: Path, largest: int) -> bytes:
    """Read a regular file of at most so many bytes. OSError for any other: a pipe would be waited for, and a device may
    have no end."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    with open(descriptor, "rb") as file:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError(errno.EINVAL, "it is no regular file", str(path))
        data = file.read(largest + 1)
    if len(data) > largest:
        raise OSError(errno.EFBIG, f"it has more than {largest:,} bytes", str(path))
    return data


def require_plain(value: Any) -> None:
    """Refuse dates, sets and bytes, which YAML has and a configuration has not, and keys that are no text."""
    if isinstance(value, dict):
        for key, child in value.items():
            if not isinstance(key, str):
                raise PlainError(f"the key {key!r:.40} is no text")
            require_plain(child)
    elif isinstance(value, list):
        for child in value:
            require_plain(child)
    elif not isinstance(value, SCALARS):
        raise PlainError(f"{value!r:.40} is no plain value")
