"""Rows of a data set: a jsonl file, a folder, or what a hub's owner/name was fetched to."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from hashlib import file_digest, sha256
from itertools import islice
from logging import CRITICAL
from math import isfinite
from pathlib import PurePath
from typing import Any

from rlx.base.fetch import open_text, revision, snapshot
from rlx.base.limits import MistakeError, near

LOOKED_AT = 200
"""Rows of a file that are looked at early."""

ESCAPED = "\\ud"
"""The beginning of such a half in JSON."""
Stamp = tuple[tuple[str, int, int, int], ...]
"""Path, number, size and time of each file."""


class DataError(MistakeError):
    """A data set that cannot be used. The message is one line with the name and the problem."""


def is_file(name: str) -> bool:
    return name.endswith((".json", ".jsonl"))


def is_elsewhere(name: str) -> bool:
    """Tell whether a data set is a hub's."""
    return not is_file(name) and not os.path.isdir(os.path.expanduser(name))


def check_place(name: str) -> None:
    """Refuse what is neither here nor a hub's; a hub is not asked."""
    if is_elsewhere(name) and (name.count("/") != 1 or name.startswith((".", "/", "~"))):
        refuse(name, "there is no such file or folder")


def first_rows(name: str) -> list[Any]:
    """Return a file's first rows, one more than are looked at early; none of what is no file."""
    check_place(name)
    return list(islice(read_file(name), LOOKED_AT + 1)) if is_file(name) else []


def read_file(name: str) -> Iterator[Any]:
    """JSON lines, one at a time; of a .json file that is a list, its items."""
    try:
        with open_text(name) as file:
            rows = as_rows(file.read()) if name.endswith(".json") else None
            file.seek(0)
            lines = (parse(name, line, number) for number, line in enumerate(file) if line.strip())
            yield from lines if rows is None else rows
    except (OSError, UnicodeDecodeError) as error:
        refuse(name, getattr(error, "strerror", None) or "it is not text in UTF-8")


def as_rows(text: str) -> list[Any] | None:
    """Return the rows of a list, or the one that an object is."""
    try:
        content = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return [encodable(row) for row in (content if isinstance(content, list) else [content])]


def parse(name: str, line: str, number: int) -> Any:
    try:
        return encodable(json.loads(line)) if ESCAPED in line.lower() else json.loads(line)
    except json.JSONDecodeError:
        why = "is not JSON"
    except RecursionError:
        why = "is nested too deeply"
    except ValueError:  # of Python's own limit
        why = "has a number of too many digits"
    return refuse(name, f"line {number + 1} {why}")


def encodable(value: Any) -> Any:
    r"""Replace halves of letters (`\ud800` alone), which JSON can spell and no encoding has."""
    if isinstance(value, str):
        return value.encode(errors="replace").decode()
    if isinstance(value, dict):
        return {encodable(key): encodable(child) for key, child in value.items()}
    return [encodable(child) for child in value] if isinstance(value, list) else value


def read_table(name: str, split: str = "train", config: str | None = None) -> Any:
    """Load a folder, or a hub's name, with `datasets`."""
    folder = str(snapshot(name, "dataset")) if is_elsewhere(name) else os.path.expanduser(name)
    from datasets import disable_progress_bars, load_dataset, logging

    disable_progress_bars()
    logging.set_verbosity(CRITICAL)
    try:
        return load_dataset(folder, config, split=split)
    except Exception as error:
        refuse(name, f"it cannot be loaded: {' '.join(str(error).split())[:200] or type(error).__name__}")


def text_of(cell: Any) -> str:
    """A cell as text: empty where it has none, as null, nan, a list and an object have."""
    has_text = isfinite(cell) if isinstance(cell, float) else isinstance(cell, str | int)
    return str(cell) if has_text else ""


def edition(name: str) -> str:
    """Return a name for what a file or a folder holds, or the commit of a hub's data set.

    A changed data set gets a new name. The name is empty if a hub's data set was never fetched.
    """
    return revision(name, "dataset") if is_elsewhere(name) else digest_of(name)


@cache
def digest_of(name: str) -> str:
    place, digest = os.path.expanduser(name), sha256()
    with require_unchanged(name):
        for path in files_of(name):
            with open(path, "rb") as file:
                digest.update(os.path.relpath(path, place).encode() + file_digest(file, "sha256").digest())
    return digest.hexdigest()[:16]


@contextmanager
def require_unchanged(name: str) -> Iterator[None]:
    """Refuse files changed since the first read by this process. The digest and the rows are read at two moments, and
    an edition should name the rows that are played."""
    first_stamp(name)
    yield
    if stamp(name) != first_stamp(name):
        raise DataError(f"env.hub={name:.200}: it was changed after this process began to read it: begin again")


@cache
def first_stamp(name: str) -> Stamp:
    return stamp(name)


def stamp(name: str) -> Stamp:
    """Return inode, size and time of each file, to notice changes without reading; nothing for a hub data set, whose
    commit stays."""
    stats = [] if is_elsewhere(name) else [(path, os.stat(path)) for path in files_of(name) if os.path.exists(path)]
    return tuple((path, stat.st_ino, stat.st_size, stat.st_mtime_ns) for path, stat in stats)


def files_of(name: str) -> list[str]:
    place = os.path.expanduser(name)
    return [place] if is_file(name) else sorted(files_below(place))


def files_below(folder: str) -> Iterator[str]:
    for place, _, names in os.walk(folder):
        yield from (os.path.join(place, name) for name in names if os.path.isfile(os.path.join(place, name)))


@cache
def load_rows(name: str, split: str = "train", config: str | None = None) -> Sequence[Mapping[str, Any]]:
    """Return every row; a file has no splits. `config` is one of several tables of a data set, or a file in it."""
    with require_unchanged(name):
        file = name if is_file(name) else file_within(name, config)
        rows: Sequence[Mapping[str, Any]] = list(read_file(file)) if file else read_table(name, split, config)
    if not len(rows):
        refuse(name, "it has no rows")
    return rows


def file_within(name: str, file: str | None) -> str:
    """Return the path of a file in a data set; empty if its name is that of a table."""
    if file is None or not is_file(file):
        return ""
    inside = PurePath(file)
    if inside.is_absolute() or ".." in inside.parts:
        raise DataError(f"env.table={file:.200}: expected a file inside the data set {name:.200}")
    folder = str(snapshot(name, "dataset")) if is_elsewhere(name) else os.path.expanduser(name)
    return os.path.join(folder, inside)


def require_columns(name: str, index: int, row: Any, columns: Mapping[str, str]) -> None:
    """A row has these columns, each named by a key of the configuration."""
    if not isinstance(row, Mapping):
        refuse(name, f"row {index} is not an object with columns")
    for key, column in columns.items():
        if column not in row:
            raise DataError(f"env.{key}={column}: no column of row {index} of {name}{near(column, map(str, row))}")


def refuse(name: str, why: str) -> Any:
    raise DataError(f"env.hub={name:.200}: {why}; give a data set's owner/name, a folder or a jsonl file")
