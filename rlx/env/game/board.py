"""Boards in plain text."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache


def in_rows(cells: Iterable[object], num_rows: int, num_columns: int, widest: int = 1) -> str:
    """Cells from the left and from the top, blanks between them, each as wide as the widest."""
    return form(num_rows, num_columns, widest) % tuple(cells)


@cache
def form(num_rows: int, num_columns: int, widest: int) -> str:
    return "\n".join([" ".join([f"%{widest}s"] * num_columns)] * num_rows)
