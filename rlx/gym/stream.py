"""Streams of tasks: by number, and as a place that copies share.

Numbered   the next task or the last again costs one; an earlier number begins the stream anew
Place      next() --> the following task; a copy continues alone, and each task is drawn once for all copies
TaskStream the tasks of an environment's resets
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from copy import copy
from functools import lru_cache, partial
from itertools import islice
from numbers import Integral
from threading import Lock
from typing import Any

from numpy.random import Generator

from rlx.base.limits import MANY, MistakeError, near
from rlx.environment import Environment
from rlx.gym.spaces import check_choice
from rlx.types import Task

SPLITS = ("train", "test")
CHOICES = ("split", "task")
"""Options of a reset."""


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


class TaskStream:
    """Tasks of resets: those of a split, in the order of a seed."""

    def __init__(self, env: Environment, split: str) -> None:
        self.env, self.split, self.seed = env, split, 0
        self.place: Place | None = None
        self.numbers = lru_cache(maxsize=2)(partial(Numbered, env))
        self.rows: list[Task] | None = None

    def begin(self, seed: int) -> None:
        """Go to the stream's beginning."""
        self.seed, self.place = seed, Place(self.env.tasks(self.split, seed))

    def choose(self, seed: int | None, options: Mapping[str, Any], idx: int | None, rng: Generator) -> Task:
        """Return the task of a reset; `rng` draws the seed where none was given."""
        check_options(options)
        if isinstance(options.get("task"), Task):
            return options["task"]
        if seed is not None or self.place is None or "split" in options:
            self.split = options.get("split", self.split)
            self.begin(int(rng.integers(2**31)) if seed is None else seed)
        if "task" in options:
            return self.numbered("options: task", options["task"])
        if idx is not None:
            task = self.numbered("idx", idx)
            self.place = Place(self.numbers(self.split, self.seed).since(int(idx) + 1))
            return task
        return self.following()

    def following(self) -> Task:
        """Return the next task; after the last of a test split the first again."""
        task = self.place.next() if self.place else None
        if task is None:
            self.begin(self.seed)
            task = self.place.next() if self.place else None
        assert task is not None
        return task

    def numbered(self, name: str, index: Any) -> Task:
        """Return the task of that number in its split, from 0."""
        if not isinstance(index, Integral) or isinstance(index, bool) or not 0 <= int(index) <= MANY:
            expected = f"a Task, or its number in the split, from 0 to {MANY}"
            raise MistakeError(f"{name}={index!r:.60}: expected {expected}")
        task = self.numbers(self.split, self.seed).at(int(index))
        if task is None:
            raise MistakeError(f"{name}={index}: the {self.split} split has fewer")
        return task

    @property
    def dataset(self) -> list[Task]:
        if self.split != "test" or not self.env.is_remote:
            raise AttributeError("dataset: it is of the test split of a data set, where make has split='test'")
        if self.rows is None:
            self.rows = list(self.env.tasks("test", 0))
        return self.rows

    def __copy__(self) -> TaskStream:
        other = TaskStream(self.env, self.split)
        other.seed, other.place, other.rows = self.seed, copy(self.place), self.rows
        return other


def check_options(options: Any) -> None:
    if not options:
        return
    if not isinstance(options, Mapping):
        raise MistakeError(f"options={options!r:.60}: expected a mapping, such as {{'split': 'test'}}")
    for name in options:
        if name not in CHOICES:
            raise MistakeError(f"options: there is no {name!r:.60}{near(str(name), CHOICES)}")
    if "split" in options:
        check_choice("options: split", options["split"], SPLITS)
