"""A tracker in a thread of its own: a run neither waits for it nor fails with it."""

from __future__ import annotations

import queue
import threading
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from time import monotonic
from typing import Protocol

from rlx.base.console import one_line

Figures = Mapping[str, tuple[float, float, float]]
"""Final figures by name: value, and the ends of its 95% interval."""

WANDB = "W&B"
REST = {WANDB: "; `wandb sync` sends the rest"}
"""Remedies after a timeout at the end, by the tracker's name."""


class Tracker(Protocol):
    """A receiver of metrics beside metrics.jsonl; each method may fail or take long."""

    def log(self, step: int, metrics: Mapping[str, float]) -> None:
        """Take the metrics of a step that metrics.jsonl has already."""

    def finish(self, figures: Figures, exit_code: int) -> None:
        """Take the final figures and close."""


@dataclass
class Dashboard:
    """A tracker, opened and fed in a separate thread.

    Its exceptions are counted by kind, and the first of each kind is reported.
    """

    name: str
    notice: Callable[[str], None]
    timeout: float
    failures: Counter[str] = field(default_factory=Counter)
    _tasks: queue.Queue[Callable[[], None] | None] = field(default_factory=lambda: queue.Queue(maxsize=1000))
    _thread: threading.Thread | None = None
    _tracker: Tracker | None = None

    def start(self, opening: Callable[[], Tracker]) -> None:
        """Start in the background. `opening` returns the tracker."""

        def begin() -> None:
            self._tracker = opening()

        self._thread = threading.Thread(target=self._work, name=self.name, daemon=True)
        self._thread.start()
        self._give(begin)

    def log(self, step: int, metrics: Mapping[str, float]) -> None:
        """Queue a step's metrics."""
        self._give(lambda: self._tracker.log(step, metrics) if self._tracker is not None else None)

    def finish(self, figures: Figures | None = None, exit_code: int = 0) -> None:
        """Send the final figures and close, within `timeout` seconds. Never raise."""

        def end() -> None:
            if self._tracker is not None:
                self._tracker.finish(figures or {}, exit_code)

        if self._thread is None:
            return
        deadline = monotonic() + self.timeout
        for task in (end, None):
            self._give(task, max(0.0, deadline - monotonic()))
        self._thread.join(max(0.0, deadline - monotonic()))
        if self._thread.is_alive():
            self._fail(TimeoutError(f"did not finish within {self.timeout:g} s{REST.get(self.name, '')}"))
        self._thread = None

    def _give(self, task: Callable[[], None] | None, wait: float = 0.0) -> None:
        if self._thread is None:
            return
        try:
            self._tasks.put(task, timeout=wait)
        except queue.Full:
            self._fail(BufferError("is too slow: steps reach it late"))

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
            self.notice(f"{self.name}: {kind}: {one_line(str(error))}; the run goes on, metrics.jsonl has everything")
