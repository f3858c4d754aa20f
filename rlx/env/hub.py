"""Rows of a data set: a jsonl file, a folder, or what a hub's owner/name was fetched to."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from itertools import islice
from pathlib import Path
from typing import Any

from rlx.fetch import snapshot
from rlx.limits import MistakeError, near

LOOKED_AT = 200
"""Rows of a file that are looked at early."""


class DataError(MistakeError):
    """A data set that cannot be asked; the message is one line that names it and says what is wrong."""


def is_file(name: str) -> bool:
    return name.endswith((".json", ".jsonl"))


def is_elsewhere(name: str) -> bool:
    """Whether it is a hub's."""
    return not is_file(name) and not Path(name).expanduser().is_dir()


def check_place(name: str) -> None:
    """Refuse what is neither here nor a hub's; a hub is not asked."""
    if is_elsewhere(name) and (name.count("/") != 1 or name.startswith((".", "/", "~"))):
        refuse(name, "there is no such file or folder")


def first_rows(name: str) -> list[Any]:
    """Of a file, a few more than are looked at early, if it has them; none of what is no file."""
    check_place(name)
    return list(islice(read_file(name), LOOKED_AT + 1)) if is_file(name) else []


def read_file(name: str) -> Iterator[Any]:
    """JSON lines, one at a time; of a .json file that is a list, its items."""
    try:
        with open(Path(name).expanduser(), encoding="utf-8") as file:
            listed = as_list(file.read()) if name.endswith(".json") else None
            file.seek(0)
            yield from listed or (parse(name, line, number) for number, line in enumerate(file) if line.strip())
    except (OSError, UnicodeDecodeError) as error:
        refuse(name, getattr(error, "strerror", None) or "it is not text")


def as_list(text: str) -> list[Any] | None:
    try:
        whole = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return whole if isinstance(whole, list) else None


def parse(name: str, line: str, number: int) -> Any:
    try:
        return json.loads(line)
    except (ValueError, RecursionError):
        refuse(name, f"line {number + 1} is not JSON")


def read_table(name: str, split: str = "train") -> Any:
    """What `datasets` makes of a folder, or of a hub's name."""
    folder = str(snapshot(name, "dataset")) if is_elsewhere(name) else str(Path(name).expanduser())
    from datasets import disable_progress_bars, load_dataset

    disable_progress_bars()
    try:
        return load_dataset(folder, split=split)
    except Exception as error:
        refuse(name, f"it cannot be loaded: {' '.join(str(error).split())[:200]}")


@cache
def load_rows(name: str, split: str = "train") -> Sequence[Mapping[str, Any]]:
    """Every row; a file has no splits."""
    rows: Sequence[Mapping[str, Any]] = list(read_file(name)) if is_file(name) else read_table(name, split)
    if not len(rows):
        refuse(name, "it has no rows")
    return rows


def require_columns(name: str, index: int, row: Any, columns: Mapping[str, str]) -> None:
    """A row has these columns, each named by a key of the configuration."""
    if not isinstance(row, Mapping):
        refuse(name, f"row {index} is not an object with columns")
    for key, column in columns.items():
        if column not in row:
            raise DataError(f"env.{key}={column}: no column of row {index} of {name}{near(column, map(str, row))}")


def refuse(name: str, why: str) -> Any:
    raise DataError(f"env.hub={name}: {why}; give a data set's owner/name, a folder or a jsonl file")
