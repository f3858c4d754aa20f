"""A run's metrics: metrics.jsonl, which is authoritative, and W&B beside it, which may fail.

metrics.jsonl has a line per step: `step` first, the other keys sorted. A float is the shortest text that reads back as
the same float, so equal runs give equal files. A value that is not finite is `null`. Every value that depends on the
clock is under `time/`, `rate/` or `memory/`.
"""

from __future__ import annotations

import json
import math
import os
import queue
import sys
import threading
import uuid
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from time import monotonic
from typing import Any, Literal

from rlx.console import one_line
from rlx.limits import above
from rlx.record.folder import write_aside
from rlx.record.sound import open_regular
from rlx.types import Metrics

CLOCK = ("time/", "rate/", "memory/")
LAST_BYTES = 2**20
"""Bytes at the end of the file in which its last lines are looked for."""
Mode = Literal["auto", "online", "offline", "disabled"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Track:
    """Trackers of a run, beside its metrics.jsonl."""

    mode: Mode = "auto"
    """W&B: auto (online if logged in, else offline), online, offline or disabled."""
    project: str = "rlx"
    entity: str = ""
    """Team or user; empty for the login's."""
    group: str = ""
    name: str = ""
    """Name of the run; empty for the run folder's name."""
    timeout: float = 20.0
    """Seconds to wait for W&B at the start and at the end. The run then continues without it."""

    def __post_init__(self) -> None:
        above(0, 86_400, timeout=self.timeout)


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
    with open(path, "a", encoding="utf-8") as file:
        file.write(metrics_line(step, metrics) + "\n")
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
    whole = raw if begin == 0 else raw.partition(b"\n")[2]
    return [line for line, _ in _parsed(whole)][-num:]


def numbers_in(path: Path, name: str) -> dict[int, float]:
    """Return a metric's finite values by step. The last line of a step counts."""
    lines = [line for line in read_metrics(path) if 0 < line["step"] <= sys.maxsize]
    return {line["step"]: float(line[name]) for line in lines if is_number(line.get(name))}


def is_number(value: Any) -> bool:
    """Return True if a JSON value is a number within the range of a float."""
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) <= sys.float_info.max


def metrics_gap(path: Path, step: int) -> str:
    """Describe the lines that the file lacks of steps 1 to `step`; empty if it lacks none."""
    found = {line["step"] for line in read_metrics(path)}
    missing = [number for number in range(1, step + 1) if number not in found]
    if not missing:
        return ""
    return f"the lines of {len(missing)} of {step} steps cannot be read, the first of them that of step {missing[0]}"


def truncate_metrics(path: Path, step: int) -> int:
    """Drop every line after `step`, which a resumed run writes again, and a torn last line. Return the last remaining
    step, or 0."""
    kept = [(line["step"], text) for line, text in _parsed_lines(path) if line["step"] <= step]
    if path.exists():
        write_aside(path, "".join(text for _, text in kept))
    return max((number for number, _ in kept), default=0)


def _parsed_lines(path: Path) -> list[tuple[dict[str, Any], str]]:
    """Return each line, parsed and as text. Torn lines and lines without metrics are left out."""
    return _parsed(path.read_bytes() if path.is_file() else b"")


def _parsed(raw: bytes) -> list[tuple[dict[str, Any], str]]:
    lines: list[tuple[dict[str, Any], str]] = []
    for text in raw.decode("utf-8", errors="replace").splitlines(keepends=True):
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


@dataclass
class Dashboard:
    """W&B in a separate thread. The run neither waits for it nor fails with it.

    Its exceptions are counted by kind, and the first of each kind is reported.
    """

    notice: Callable[[str], None]
    timeout: float
    failures: Counter[str] = field(default_factory=Counter)
    _tasks: queue.Queue[Callable[[], None] | None] = field(default_factory=lambda: queue.Queue(maxsize=1000))
    _thread: threading.Thread | None = None
    _run: Any = None

    def start(self, opening: Callable[[], Any]) -> None:
        """Start in the background. `opening` returns W&B's run."""

        def begin() -> None:
            self._run = opening()

        self._thread = threading.Thread(target=self._work, name="wandb", daemon=True)
        self._thread.start()
        self._give(begin)

    def log(self, step: int, metrics: Mapping[str, float]) -> None:
        """Queue a step's metrics for W&B."""
        told = {"step": step, **metrics}
        self._give(lambda: self._run.log(told) if self._run is not None else None)

    def finish(self, metrics: Mapping[str, float] | None = None, exit_code: int = 0) -> None:
        """Send the final figures and close, within `timeout` seconds. Never raise."""

        def end() -> None:
            if self._run is not None:
                self._run.summary.update(dict(metrics or {}))
                self._run.finish(exit_code=exit_code)

        if self._thread is None:
            return
        until = monotonic() + self.timeout
        for task in (end, None):
            self._give(task, max(0.0, until - monotonic()))
        self._thread.join(max(0.0, until - monotonic()))
        if self._thread.is_alive():
            self._fail(TimeoutError(f"did not finish within {self.timeout:g} s; `wandb sync` sends the rest"))
        self._thread = None

    def _give(self, task: Callable[[], None] | None, wait: float = 0.0) -> None:
        if self._thread is None:
            return
        try:
            self._tasks.put(task, timeout=wait)
        except queue.Full:
            self._fail(BufferError("is too slow: some steps are only in metrics.jsonl"))

    def _work(self) -> None:
        while (task := self._tasks.get()) is not None:
            try:
                task()
            except BaseException as error:  # also SystemExit: whatever it was, the run must not hear of it
                self._fail(error)

    def _fail(self, error: BaseException) -> None:
        kind = type(error).__name__
        self.failures[kind] += 1
        if self.failures[kind] == 1:
            self.notice(f"W&B: {kind}: {one_line(str(error))}; the run goes on, metrics.jsonl has everything")


def open_dashboard(
    track: Track, folder: Path, config: Mapping[str, Any], *, notice: Callable[[str], None], rank: int = 0
) -> Dashboard:
    """Return a dashboard that is already starting, or one that does nothing if disabled or not on rank 0."""
    dashboard = Dashboard(notice=notice, timeout=track.timeout)
    if rank == 0 and "disabled" not in (track.mode, os.environ.get("WANDB_MODE")):
        dashboard.start(lambda: _open_wandb(track, folder, config))
    return dashboard


def _open_wandb(track: Track, folder: Path, config: Mapping[str, Any]) -> Any:
    """Open W&B's run: online if the mode says so or, with `auto`, if the user is logged in. An unreachable server makes
    it offline.

    With `auto`, W&B's variable WANDB_MODE comes first.
    """
    import wandb

    mode = os.environ.get("WANDB_MODE", "auto") if track.mode == "auto" else track.mode
    online = mode == "online" or (mode == "auto" and wandb.login(prompt=False, timeout=10) is True)
    settings = wandb.Settings(init_timeout=track.timeout, silent=True, console="off", disable_git=True)
    asked: dict[str, Any] = {
        "project": track.project,
        "entity": track.entity or None,
        "group": track.group or None,
        "name": track.name or folder.name,
        "id": _run_id(folder),
        "dir": str(folder),
        "config": dict(config),
        "resume": "allow",
        "settings": settings,
    }
    try:
        run = wandb.init(mode="online" if online else "offline", **asked)
    except wandb.errors.CommError:
        run = wandb.init(mode="offline", **asked)
    run.define_metric("*", step_metric="step")
    return run


def _run_id(folder: Path) -> str:
    """Return the run's id for W&B, the same across resumes."""
    path = folder / "wandb" / "run-id"
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        write_aside(path, uuid.uuid4().hex[:12])
    return path.read_text(encoding="utf-8").strip()
