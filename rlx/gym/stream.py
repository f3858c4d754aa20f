"""Streams of tasks: by number, and as a place that copies share.

Numbered   the next task or the last again costs one; an earlier number begins the stream anew
Place      next() --> the following task; a copy continues alone, and each task is drawn once for all copies
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from threading import Lock

from rlx.types import Environment, Task


class Numbered:
    """Tasks of one stream by their numbers, from 0."""

    def __init__(self, env: Environment, split: str, seed: int) -> None:
        self.env, self.split, self.seed = env, split, seed
        self.begin()

    def begin(self) -> None:
        self.stream: Iterator[Task] = self.env.tasks(self.split, self.seed)
        self.num_taken = 0
        self.last: Task | None = None

    def at(self, index: int) -> Task | None:
        """Return the task of a number; None where the stream is shorter."""
        if index < self.num_taken - 1:
            self.begin()
        if index >= self.num_taken:
            self.last = next(islice(self.stream, index - self.num_taken, None), None)
            self.num_taken = index + 1
        return self.last

    def since(self, index: int) -> Iterator[Task]:
        """Yield the tasks from a number on."""
        while (task := self.at(index)) is not None:
            yield task
            index += 1


class Node:
    """A task that was drawn, and the node of the next one once that is drawn."""

    __slots__ = ("after", "task")

    def __init__(self, task: Task | None) -> None:
        self.task = task
        self.after: Node | None = None


class Place:
    """A place in a stream. Nodes before the last of all copies are freed."""

    def __init__(self, tasks: Iterator[Task], lock: Lock | None = None, node: Node | None = None) -> None:
        self.tasks, self.lock, self.node = tasks, lock or Lock(), node or Node(None)

    def next(self) -> Task | None:
        """Return the following task and move past it; None at the stream's end."""
        with self.lock:  # copies may be stepped by different threads
            if self.node.after is None:
                task = next(self.tasks, None)
                if task is None:
                    return None
                self.node.after = Node(task)
            self.node = self.node.after
        return self.node.task

    def __copy__(self) -> Place:
        return Place(self.tasks, self.lock, self.node)
