"""Single files of a run: read within bounds, and moved aside where they are damaged."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Mapping
from itertools import count
from pathlib import Path
from typing import Any

from rlx.base.regular import inside, open_new, open_regular, read_bounded


def read_json(path: Path, *names: str) -> Mapping[str, Any]:
    """A JSON object in a file, or in a file inside a folder; empty where there is none that can be read."""
    try:
        value = json.loads(read_bounded(inside(path, *names)))
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
    free = next(name for name in names if not os.path.lexists(name))
    path.rename(free)
    return free


def copy_aside(path: Path) -> Path:
    """The same, of a file of which the good part stays."""
    moved = set_aside(path)
    with open_regular(moved) as source, open_new(path) as copy:
        shutil.copyfileobj(source, copy)
    return moved
