"""Threads that share out work: for a batch of waiting, less than what a pool of futures asks for every piece.

    batch = crew.begin(work, [(0, "a"), (1, "b")])    # in threads, while the caller does something else
    batch.wait()                                      # what came of each, in order

A batch is one queue's end: the thread that finishes its last piece wakes the caller, and no other does.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from queue import SimpleQueue
from threading import Event, Thread
from typing import Any, Generic, TypeVar

T = TypeVar("T")


class WorkBatch(Generic[T]):
    """Pieces of work, and what came of them."""

    def __init__(self, work: Callable[..., T], given: Sequence[tuple[Any, ...]]) -> None:
        self.work, self.given = work, given
        self.done: dict[int, T] = {}
        self.raised: dict[int, BaseException] = {}
        self.left, self.ended = [None] * len(given), Event()
        if not given:
            self.ended.set()

    def do(self, place: int) -> None:
        try:
            self.done[place] = self.work(*self.given[place])
        except BaseException as error:  # for whoever waits
            self.raised[place] = error
        self.left.pop()
        if not self.left:
            self.ended.set()

    def wait(self) -> list[T]:
        """In the order of what was given; the first that raised raises here."""
        self.ended.wait()
        for place in sorted(self.raised):
            raise self.raised[place]
        return [self.done[place] for place in range(len(self.given))]


class Crew:
    """So many threads, until they are dismissed, or nobody has them any more."""

    def __init__(self, num: int) -> None:
        self.given: SimpleQueue[tuple[WorkBatch[Any], int] | None] = SimpleQueue()
        self.threads = [Thread(target=serve, args=(self.given,), name=f"gym_{i}", daemon=True) for i in range(num)]
        for thread in self.threads:
            thread.start()
        self.end = weakref.finalize(self, leave, self.given, num)

    def begin(self, work: Callable[..., T], given: Sequence[tuple[Any, ...]]) -> WorkBatch[T]:
        batch = WorkBatch(work, given)
        for place in range(len(given)):
            self.given.put((batch, place))
        return batch

    def dismiss(self) -> None:
        """When what was begun is done."""
        self.end()
        for thread in self.threads:
            thread.join()


def serve(given: SimpleQueue[tuple[WorkBatch[Any], int] | None]) -> None:
    while (one := given.get()) is not None:
        batch, place = one
        batch.do(place)


def leave(given: SimpleQueue[tuple[WorkBatch[Any], int] | None], num: int) -> None:
    for _ in range(num):
        given.put(None)
