"""Single files of a run: read within bounds, written whole, and moved aside where they are damaged."""

from __future__ import annotations

import json
import os
import secrets
import shutil
from collections.abc import Mapping
from contextlib import suppress
from itertools import count
from pathlib import Path
from typing import Any

from rlx.record.plain_yaml import LARGEST, read_bounded
from rlx.record.sound import open_regular

ASIDE = ".part"
"""The end of the name of a file that is not whole yet."""


def write_aside(path: Path, text: str) -> None:
    """Write a file so that it is never seen half written; where it cannot be, the error names it. Several may write the
    same at once, as jobs that share a cache do: each writes aside under a name of its own, and the last stands."""
    aside = path.with_name(f".{path.name}.{secrets.token_hex(4)}{ASIDE}")
    try:
        with open(aside, "x", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        os.replace(aside, path)
    except OSError as error:
        with suppress(OSError):
            aside.unlink(missing_ok=True)
        raise OSError(error.errno, f"{path} could not be written: {error.strerror}", str(path)) from error


def read_json(path: Path) -> Mapping[str, Any]:
    """A JSON object; empty where there is none that can be read."""
    try:
        value = json.loads(read_bounded(path, LARGEST))
    except (OSError, ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


def last_lines(path: Path, num: int = 10) -> list[str]:
    """The end of a log, whatever its length, less its empty lines."""
    try:
        with open_regular(path) as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - 64 * 1024))
            lines = file.read().decode(errors="replace").splitlines()
    except OSError:
        return []
    return [line for line in lines if line.strip()][-num:]


def set_aside(path: Path) -> Path:
    """Move what is damaged out of the way, where it can be looked at: NAME.damaged, or NAME.damaged-2 and on."""
    names = (path.with_name(f"{path.name}.damaged{'' if n == 1 else f'-{n}'}") for n in count(1))
    free = next(name for name in names if not name.exists())
    path.rename(free)
    return free


def copy_aside(path: Path) -> Path:
    """The same, of a file of which the good part stays."""
    moved = set_aside(path)
    shutil.copy(moved, path)
    return moved
