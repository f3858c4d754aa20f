"""Boards in plain text."""

from __future__ import annotations

from collections.abc import Sequence


def in_rows(cells: Sequence[object], width: int) -> str:
    """Cells from the left and from the top, blanks between them, as wide as the widest."""
    words = [str(cell) for cell in cells]
    widest = max(map(len, words))
    rows = (words[start : start + width] for start in range(0, len(words), width))
    return "\n".join(" ".join(word.rjust(widest) for word in row) for row in rows)
