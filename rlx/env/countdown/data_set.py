"""Countdown problems of a data set (rlx.env.hub)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from typing import Any

from rlx.env import hub
from rlx.env.countdown.solver import solve
from rlx.env.hub import LOOKED_AT, is_file, refuse

Row = tuple[list[int], int]
"""Numbers and a target."""

MAX_NUMBERS = 6
"""Largest number of numbers in a problem: the solver takes a third of a second for six."""
MAX_NUMBER = 10**9
"""Keeps whatever six numbers make within a float."""
NUMBERS, TARGET = ("nums", "numbers"), ("target",)
"""Names that a column may have."""


def check_rows(name: str) -> None:
    """Refuse what is here and holds no problem; what is on a hub is not asked for."""
    rows = hub.first_rows(name)
    if is_file(name):
        check_first(name, list(read_rows(name, rows)))


def check_first(name: str, rows: Sequence[Row]) -> None:
    """Refuse a short file without a solvable row. A long file is checked while it is played."""
    if len(rows) <= LOOKED_AT and not any(solve(*row) is not None for row in rows):
        refuse(name, "it has no solvable problem" if rows else "it has no rows")


@cache
def is_solvable(numbers: tuple[int, ...], target: int) -> bool:
    """Asked once of each row, however often the data set is gone through."""
    return solve(numbers, target) is not None


@cache
def load_rows(name: str) -> list[Row]:
    """Every row of a data set."""
    with hub.require_unchanged(name):
        rows = list(read_rows(name, hub.read_file(name)) if is_file(name) else read_folder(name))
    if not rows:
        refuse(name, "it has no rows")
    return rows


def read_rows(name: str, rows: Iterable[Any]) -> Iterator[Row]:
    """Numbers and target of each row, whatever its columns are called."""
    columns: Sequence[str] = ()
    for index, row in enumerate(rows):
        if not isinstance(row, Mapping):
            refuse(name, f"row {index} is not an object with columns")
        columns = columns or columns_of(name, list(row))
        yield problem(name, index, *(row.get(column) for column in columns))


def columns_of(name: str, columns: Sequence[str]) -> list[str]:
    names = [next((key for key in keys if key in columns), "") for keys in (NUMBERS, TARGET)]
    if not all(names):
        refuse(name, f"it has columns {columns[:6]}, and needs one of {NUMBERS} and {TARGET[0]!r}")
    return names


def read_folder(name: str) -> Iterator[Row]:
    table = hub.read_table(name)
    columns = columns_of(name, table.column_names)
    pairs = zip(*(table[column] for column in columns), strict=True)
    return (problem(name, index, *pair) for index, pair in enumerate(pairs))


def problem(name: str, index: int, numbers: Any, target: Any) -> Row:
    """A row that is one."""
    values = [*numbers, target] if isinstance(numbers, (list, tuple)) else [None]
    if not all(isinstance(value, int | float) and value == value // 1 for value in values):
        refuse(name, f"row {index} is not a list of integers and a target")
    integers, goal = [int(number) for number in numbers], int(target)
    if not 1 <= len(integers) <= MAX_NUMBERS or min(integers) < 0 or max(*integers, abs(goal)) > MAX_NUMBER:
        refuse(name, f"row {index} needs 1 to {MAX_NUMBERS} numbers of 0 to {MAX_NUMBER}")
    return integers, goal
