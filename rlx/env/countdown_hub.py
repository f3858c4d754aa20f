"""Countdown problems of a data set: a jsonl file, a folder, or what a hub's owner/name was fetched to."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from itertools import islice
from pathlib import Path
from typing import Any

from rlx.env.solver import solve
from rlx.fetch import snapshot
from rlx.limits import MistakeError

Row = tuple[list[int], int]
"""Numbers and a target."""

MAX_NUMBERS = 6
"""Of a problem: the solver takes a third of a second for six numbers."""
MAX_NUMBER = 10**9
"""Keeps whatever six numbers make within a float."""
NUMBERS, TARGET = ("nums", "numbers"), ("target",)
"""Names that a column may have."""
LOOKED_AT = 200
"""Rows among which a file that is looked at early must have a problem that can be solved."""


class DataError(MistakeError):
    """A data set that holds no problems; the message is one line that names it and says what is wrong."""


def is_file(name: str) -> bool:
    return name.endswith((".json", ".jsonl"))


def is_elsewhere(name: str) -> bool:
    """Whether it is a hub's."""
    return not is_file(name) and not Path(name).expanduser().is_dir()


def check_rows(name: str) -> None:
    """Refuse what is here and holds no problem; what is on a hub is not asked for."""
    if is_file(name):
        check_first(name, list(islice(read_file(name), LOOKED_AT + 1)))
    elif is_elsewhere(name) and (name.count("/") != 1 or name.startswith((".", "/", "~"))):
        refuse(name, "there is no such file or folder")


def check_first(name: str, rows: Sequence[Row]) -> None:
    """Of a short file, one row can be solved; a long one is looked at when it is played."""
    if len(rows) <= LOOKED_AT and not any(solve(*row) is not None for row in rows):
        refuse(name, "it has no solvable problem" if rows else "it has no rows")


@cache
def is_solvable(numbers: tuple[int, ...], target: int) -> bool:
    """Asked once of each row, however often the data set is gone through."""
    return solve(numbers, target) is not None


@cache
def load_rows(name: str) -> list[Row]:
    """Every row of a data set."""
    rows = list(read_file(name) if is_file(name) else read_folder(name))
    if not rows:
        refuse(name, "it has no rows")
    return rows


def read_file(name: str) -> Iterator[Row]:
    """Of JSON lines, one at a time; of a .json file that is a list, its items."""
    try:
        with open(Path(name).expanduser(), encoding="utf-8") as file:
            yield from checked(name, (parse(name, line, number) for number, line in enumerate(file) if line.strip()))
    except (OSError, UnicodeDecodeError) as error:
        refuse(name, getattr(error, "strerror", None) or "it is not text")


def parse(name: str, line: str, number: int) -> Any:
    try:
        return json.loads(line)
    except (ValueError, RecursionError):
        refuse(name, f"line {number + 1} is not JSON")


def checked(name: str, rows: Iterable[Any]) -> Iterator[Row]:
    """Numbers and target of each row, whatever its columns are called."""
    columns: Sequence[str] = ()
    for index, row in enumerate(rows):
        if not isinstance(row, Mapping):
            refuse(name, f"row {index} is not an object with columns")
        columns = columns or columns_of(name, list(row))
        yield problem(name, index, *(row.get(column) for column in columns))


def columns_of(name: str, there: Sequence[str]) -> list[str]:
    found = [next((key for key in keys if key in there), "") for keys in (NUMBERS, TARGET)]
    if not all(found):
        refuse(name, f"it has columns {there[:6]}, and needs one of {NUMBERS} and {TARGET[0]!r}")
    return found


def read_folder(name: str) -> Iterator[Row]:
    """Of a folder of files that `datasets` reads, or of a hub's name."""
    folder = str(snapshot(name, "dataset")) if is_elsewhere(name) else str(Path(name).expanduser())
    from datasets import disable_progress_bars, load_dataset

    disable_progress_bars()
    try:
        table = load_dataset(folder, split="train")
    except Exception as error:
        refuse(name, f"it cannot be loaded: {' '.join(str(error).split())[:200]}")
    columns = columns_of(name, table.column_names)
    pairs = zip(*(table[column] for column in columns), strict=True)
    return (problem(name, index, *pair) for index, pair in enumerate(pairs))


def problem(name: str, index: int, numbers: Any, target: Any) -> Row:
    """A row that is one."""
    values = [*numbers, target] if isinstance(numbers, (list, tuple)) else [None]
    if not all(isinstance(value, int | float) and value == value // 1 for value in values):
        refuse(name, f"row {index} is not a list of integers and a target")
    whole, goal = [int(number) for number in numbers], int(target)
    if not 1 <= len(whole) <= MAX_NUMBERS or min(whole) < 0 or max(*whole, abs(goal)) > MAX_NUMBER:
        refuse(name, f"row {index} needs 1 to {MAX_NUMBERS} numbers of 0 to {MAX_NUMBER}")
    return whole, goal


def refuse(name: str, why: str) -> Any:
    raise DataError(f"env.hub={name}: {why}; give a data set's owner/name, a folder or a jsonl file")
