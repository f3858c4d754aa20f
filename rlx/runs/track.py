"""A run's metrics: metrics.jsonl, which is authoritative. Trackers beside it may fail (rlx/runs/trackers.py).

metrics.jsonl has a line per step: `step` first, the other keys sorted. A float is the shortest text that reads back as
the same float, so equal runs give equal files. A value that is not finite is `null`. Every value that depends on the
clock is under `time/`, `rate/` or `memory/`.
"""

from __future__ import annotations

import json
import math
import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Annotated, Any, Literal

from rlx.base.console import one_line
from rlx.base.limits import CONSENT, MistakeError, above, near, within
from rlx.base.regular import lines_of, open_regular, open_to_append, write_aside
from rlx.types import Metrics

CLOCK = ("time/", "rate/", "memory/")
LAST_BYTES = 2**20
"""Bytes at the end of the file in which its last lines are looked for."""
Mode = Literal["auto", "online", "offline", "disabled"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Track:
    """Trackers of a run, beside its metrics.jsonl."""

    mode: Annotated[Mode, CONSENT] = "auto"
    """W&B: auto (online if logged in, else offline), online, offline or disabled."""
    project: Annotated[str, CONSENT] = "rlx"
    """W&B project."""
    entity: Annotated[str, CONSENT] = ""
    """W&B team or user; empty is the login's own."""
    group: str = ""
    """W&B group, to keep runs together; empty is the sweep that the run is part of, if any."""
    name: str = ""
    """W&B name of the run; empty is the run folder's."""
    timeout: float = 20.0
    """Seconds to wait for a tracker to answer, at the start and at the end, before going on without it."""
    episodes: int = 50
    """Largest number of episodes in W&B's table of them; 0 sends no text of any episode."""
    tensorboard: bool = False
    """TensorBoard's event files in the run's folder tensorboard/ (extra `tensorboard`)."""

    def __post_init__(self) -> None:
        above(0, 86_400, timeout=self.timeout)
        within(0, 10_000, episodes=self.episodes)


def is_clock(name: str) -> bool:
    """Return True if a metric depends on the clock and so differs between equal runs."""
    return name.startswith(CLOCK)


def metrics_line(step: int, metrics: Mapping[str, float]) -> str:
    """Format a line of metrics.jsonl, without its newline."""
    ordered = {name: _plain(metrics[name]) for name in sorted(metrics)}
    return json.dumps({"step": int(step), **ordered}, allow_nan=False)


def append_metrics(path: Path, step: int, metrics: Metrics) -> None:
    """Append a step's line and flush it to the disk."""
    if "step" in metrics:
        raise ValueError("a metric cannot be called 'step'")
    with open_to_append(path) as file:
        file.write(f"{metrics_line(step, metrics)}\n".encode())
        file.flush()
        os.fsync(file.fileno())


def read_metrics(path: Path) -> list[dict[str, Any]]:
    """Return the complete lines of metrics.jsonl; an empty list without a file."""
    return [line for line, _ in _parsed_lines(path)]


def last_metrics(path: Path, num: int) -> list[dict[str, Any]]:
    """Return the last complete lines of metrics.jsonl, at most `num`, whatever its length; empty without a file."""
    try:
        with open_regular(path) as file:
            begin = max(0, os.fstat(file.fileno()).st_size - LAST_BYTES)
            file.seek(begin)
            raw = file.read(LAST_BYTES)
    except OSError:
        return []
    complete_lines = raw if begin == 0 else raw.partition(b"\n")[2]
    backwards = map(line_of, reversed(complete_lines.decode("utf-8", errors="replace").splitlines(keepends=True)))
    return list(islice((line for line in backwards if line is not None), num))[::-1]


def missing_lines(path: Path, last: int, step: int, metrics: Mapping[str, Any]) -> dict[int, Mapping[str, Any]]:
    """Return the lines from `last` + 1 to `step` in order, for a tracker that has those up to `last`.

    Only a tracker that lacks more than the line of `step` reads the file.
    """
    lines = {step: metrics} if step == last + 1 else lines_by_step(path) | {step: metrics}
    return {number: lines[number] for number in sorted(lines) if last < number <= step}


def lines_by_step(path: Path) -> dict[int, Mapping[str, Any]]:
    """Return the lines of metrics.jsonl by step. The last line of a step counts."""
    return {line["step"]: line for line in read_metrics(path) if is_step(line["step"])}


def texts_by_step(path: Path) -> dict[int, str]:
    """Return the text of each step's line; the last line of a step counts.

    Texts take less memory than parsed lines, each of which has names of its own: a third less at the peak of
    `rlx metrics`, over 16,000 steps of 60 metrics.
    """
    texts: dict[int, str] = {}
    with open_regular(path) as file:
        for raw in lines_of(file):
            text = raw.decode("utf-8", errors="replace")
            line = line_of(text)
            if line is not None and is_step(line["step"]):
                texts[line["step"]] = text
    return texts


def finite_numbers(line: Mapping[str, Any]) -> dict[str, float]:
    """Return the finite metrics of a line, under names that a tracker can show."""
    return {one_line(name): value for name, value in line.items() if name != "step" and is_number(value)}


def numbers_in(path: Path, name: str) -> dict[int, float]:
    """Return a metric's finite values by step. The last line of a step counts."""
    lines = [line for line in read_metrics(path) if is_step(line["step"])]
    return {line["step"]: float(line[name]) for line in lines if is_number(line.get(name))}


def require_numbers(path: Path, name: str) -> dict[int, float]:
    """Return a metric's finite values by step; MistakeError with close names if no step has one."""
    values = numbers_in(path, name)
    if not values:
        names = {metric for line in read_metrics(path) for metric in finite_numbers(line)}
        raise MistakeError(f"{path}: no step says {one_line(name, 60)!r}{near(name, names)}")
    return values


def is_step(number: int) -> bool:
    """Return True if a run can have a step of this number."""
    return 0 < number <= sys.maxsize


def is_number(value: Any) -> bool:
    """Return True if a JSON value is a number within the range of a float."""
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) <= sys.float_info.max


def metrics_gap(path: Path, step: int) -> str:
    """Describe the lines that the file lacks of steps 1 to `step`; empty if it lacks none."""
    steps = {line["step"] for line in read_metrics(path)}
    missing = [number for number in range(1, step + 1) if number not in steps]
    if not missing:
        return ""
    return f"the lines of {len(missing)} of {step} steps cannot be read, the first of them that of step {missing[0]}"


def truncate_metrics(path: Path, step: int) -> int:
    """Drop every line after `step`, which a resumed run writes again, and a torn last line. Return the last remaining
    step, or 0."""
    lines = [(line["step"], text) for line, text in _parsed_lines(path) if line["step"] <= step]
    if os.path.lexists(path):
        write_aside(path, "".join(text for _, text in lines))
    return max((number for number, _ in lines), default=0)


def _parsed_lines(path: Path) -> list[tuple[dict[str, Any], str]]:
    """Return each line, parsed and as text. Torn lines and lines without metrics are left out."""
    lines: list[tuple[dict[str, Any], str]] = []
    if not os.path.lexists(path):
        return lines
    with open_regular(path) as file:
        for raw in lines_of(file):
            text = raw.decode("utf-8", errors="replace")
            line = line_of(text)
            if line is not None:
                lines.append((line, text))
    return lines


def line_of(text: str) -> dict[str, Any] | None:
    """Return a line's metrics; None for one that is torn or has no step."""
    try:
        line = json.loads(text) if text.endswith("\n") else None
    except (ValueError, RecursionError):
        return None
    is_step = isinstance(line, dict) and isinstance(line.get("step"), int) and not isinstance(line["step"], bool)
    return line if is_step else None


def _plain(value: float) -> float | None:
    number = float(value)
    return number if math.isfinite(number) else None
