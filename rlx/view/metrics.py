"""`api/metrics`: the lines of metrics.jsonl after a byte, as columns."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import Any, BinaryIO

from rlx.base.http import RefusedError
from rlx.base.regular import open_regular
from rlx.runs.folder import METRICS
from rlx.runs.form import CodecError, parse
from rlx.view.limits import MOST_METRICS, MOST_NAMES, dump, plain

MARKED = 4096
"""Bytes before the place that a mark is of."""
EMPTY = {"end": 0, "mark": "", "reset": True, "more": False, "steps": [], "columns": {}, "damaged": 0}


def metrics_answer(folder: Path, start: int, mark: str) -> bytes:
    """Return the whole lines after byte `start`; all of them, with `reset`, where the bytes before it are not those
    that `mark` is of, as a resumed run cuts the file back."""
    path = folder / METRICS
    if not os.path.lexists(path):
        return dump(EMPTY)
    try:
        with open_regular(path) as file:
            return dump(read_on(file, start, mark))
    except OSError as error:
        raise RefusedError(422, f"{METRICS}: {error.strerror}") from None


def read_on(file: BinaryIO, start: int, mark: str) -> dict[str, Any]:
    size = os.fstat(file.fileno()).st_size
    is_same = start <= size and mark_at(file, start) == mark
    begin = start if is_same else 0
    file.seek(begin)
    raw = file.read(MOST_METRICS)
    end = raw.rfind(b"\n") + 1
    if not end and len(raw) == MOST_METRICS:  # one line longer than an answer: pass over it
        end = len(raw)
    lines, damaged = parse_lines(raw[:end])
    return {
        "end": begin + end,
        "mark": mark_at(file, begin + end),
        "reset": not is_same,
        "more": len(raw) == MOST_METRICS,
        "steps": [line["step"] for line in lines],
        "columns": columns_of(lines),
        "damaged": damaged,
    }


def mark_at(file: BinaryIO, place: int) -> str:
    """Return a checksum of the bytes before a place; empty at the beginning."""
    if place == 0:
        return ""
    file.seek(max(0, place - MARKED))
    return hashlib.sha256(file.read(min(place, MARKED))).hexdigest()[:16]


def parse_lines(raw: bytes) -> tuple[list[dict[str, Any]], int]:
    """Return the lines that are a step's metrics, and the number of others."""
    records = [parse_metrics(line) for line in raw.split(b"\n")[:-1]]
    lines = [line for line in records if line is not None]
    return lines, len(records) - len(lines)


def parse_metrics(raw: bytes) -> dict[str, Any] | None:
    try:
        line = parse(raw)
    except CodecError:
        return None
    return line if isinstance(line, dict) and isinstance(plain(line.get("step")), int) else None


def columns_of(lines: list[dict[str, Any]]) -> dict[str, list[float | int | None]]:
    names = list(dict.fromkeys(name for line in lines for name in line if name != "step"))[:MOST_NAMES]
    return {name: [plain(line.get(name)) for line in lines] for name in names}
