"""Metrics of a run as arrays, read from metrics.jsonl in one pass that holds one line at a time."""

from __future__ import annotations

import os
import sys
from array import array
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlx.base.regular import lines_of as lines_of_file
from rlx.base.regular import open_regular
from rlx.runs.track import is_number, line_of


@dataclass(frozen=True, kw_only=True)
class Series:
    """Values of a metric, in the order of the steps."""

    steps: NDArray[np.int64]
    values: NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class Columns:
    """Metrics of a run, read in one pass."""

    series: Mapping[str, Series]
    last: int = 0
    """Largest step; 0 without a line."""
    num_torn: int = 0
    """Lines that are not whole or hold no step."""
    num_missing: int = 0
    """Steps from 1 to the last without a line."""


def read_columns(path: Path, wanted: Callable[[str], bool]) -> Columns:
    """Read the finite values of the wanted metrics, a line at a time; the last line of a step counts."""
    steps: dict[str, array[int]] = {}
    values: dict[str, array[float]] = {}
    distinct_steps: set[int] = set()
    num_torn = 0
    for line in lines_of(path):
        if line is None or not 0 < line["step"] <= sys.maxsize:
            num_torn += 1
            continue
        distinct_steps.add(line["step"])
        for name, value in line.items():
            if name != "step" and is_number(value) and wanted(name):
                steps.setdefault(name, array("q")).append(line["step"])
                values.setdefault(name, array("d")).append(value)
    last = max(distinct_steps, default=0)
    series = {name: series_of(steps[name], values[name]) for name in sorted(steps)}
    return Columns(series=series, last=last, num_torn=num_torn, num_missing=last - len(distinct_steps))


def series_of(steps: array[int], values: array[float]) -> Series:
    """Return a metric in the order of its steps, each with the value of its last line."""
    step_array, value = np.array(steps, dtype=np.int64), np.array(values, dtype=np.float64)
    unique, first = np.unique(step_array[::-1], return_index=True)
    return Series(steps=unique, values=value[::-1][first])


def lines_of(path: Path) -> Iterator[dict[str, Any] | None]:
    """Yield each line of the file, None for one that is torn or has no step."""
    if not os.path.lexists(path):
        return
    with open_regular(path) as file:
        for raw in lines_of_file(file):
            yield line_of(raw.decode("utf-8", errors="replace"))
