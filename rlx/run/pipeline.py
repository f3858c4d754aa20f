"""Rollouts of later steps beside the update of this one: a pipeline, not a race.

With `staleness` s, the rollouts of step k + s start before update k, in a thread of their own, with the weights that
are current then. So those of step k lag behind by min(k, s) updates, always, and what a run does is a function of its
seed as it is without: nothing is asked of the clock. Without staleness a step's rollouts are played when it asks for
them, by whoever asks.

    s = 1    play 0 | play 1   | play 2   | ...
                    | update 0 | update 1 | ...

A checkpoint waits for the rollouts under way and keeps them, so that a resumed run has the very same.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, Generic, TypeVar

T = TypeVar("T")

Play = Callable[[], T]
"""Function that plays a step's rollouts, on any thread: their weights and settings are fixed."""
Launch = Callable[[int], Play[T]]
"""Function that fixes the weights and settings of a step's rollouts. Called by the thread that learns."""


class AbandonedError(Exception):
    """Nobody waits for these rollouts any more."""


class Pipeline(Generic[T]):
    """The rollouts of steps up to `last`, `staleness` steps ahead. All but `check` is for one thread."""

    def __init__(
        self, launch: Launch[T], *, staleness: int, last: int, restored: Mapping[int, T] | None = None
    ) -> None:
        """Start the pipeline; `restored` has the rollouts of a checkpoint, by step."""
        self.launch, self.staleness, self.last = launch, staleness, last
        self._played: dict[int, T] = dict(restored or {})
        self._playing: dict[int, Future[T]] = {}
        self._abandoned = threading.Event()
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="rollout") if staleness else None

    def check(self) -> None:
        """Raise AbandonedError on the thread that plays, once the pipeline is closed."""
        if self._abandoned.is_set():
            raise AbandonedError("the run has ended")

    def take(self, step: int) -> T:
        """Return the rollouts of a step, and begin those ahead of it. Steps are taken in order, each once."""
        if self._thread is None:
            return self.launch(step)()
        self._played = {other: played for other, played in self._played.items() if other >= step}
        for ahead in range(step, min(step + self.staleness + 1, self.last)):
            if ahead not in self._played and ahead not in self._playing:
                self._playing[ahead] = self._thread.submit(self.launch(ahead))
        return self._finish(step)

    def _finish(self, step: int) -> T:
        if step not in self._played:
            self._played[step] = self._playing[step].result()
            del self._playing[step]
        return self._played[step]

    def wait(self, step: int) -> dict[int, T]:
        """Wait for the rollouts under way; return those from `step` on, by step. The engine is free afterwards."""
        for ahead in sorted(self._playing):
            self._finish(ahead)
        return {ahead: played for ahead, played in sorted(self._played.items()) if ahead >= step}

    def close(self) -> None:
        """Stop the rollouts under way, and drop them and `launch`, which holds a policy."""
        self._abandoned.set()
        if self._thread is not None:
            self._thread.shutdown(wait=True, cancel_futures=True)
        self._playing.clear()
        self._played.clear()
        self.launch = end_play


def end_play(step: int) -> Play[Any]:
    raise AbandonedError(f"step {step}: the run has ended")
