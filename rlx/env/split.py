"""Tasks drawn at random, in two splits that never overlap: a hash of a task's id says which of them it is of."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from hashlib import sha256
from random import Random

from rlx.types import Task

ONE_IN = 4
"""One task in this many is held out for the test split."""
PATIENCE = 1000
"""Draws of nothing new after which there is nothing more."""

Draw = Callable[[Random], Task]


def is_held_out(task: Task) -> bool:
    return sha256(task.id.encode()).digest()[0] % ONE_IN == 0


def split_tasks(name: str, draw: Draw, split: str, seed: int, num_test: int, *, apart: bool = True) -> Iterator[Task]:
    """Endless `train` tasks for a seed, or `num_test` different `test` tasks, fewer if there are no more, which are the
    same for every seed. `name` keys the random numbers. Not `apart`: there are too few to hold any out, and both splits
    have all of them."""
    if split == "train":
        return train_tasks(draw, Random(f"{name}/train/{seed}"), apart)
    if split == "test":
        return test_tasks(draw, Random(f"{name}/test"), num_test, apart)
    raise ValueError(f"split={split}: expected train or test")


def train_tasks(draw: Draw, rng: Random, apart: bool) -> Iterator[Task]:
    num_skipped = 0
    while num_skipped < PATIENCE:
        task = draw(rng)
        num_skipped += 1
        if not (apart and is_held_out(task)):
            num_skipped = 0
            yield task
    raise ValueError("env: every task is held out for the test, as there are so few of them: allow for more")


def test_tasks(draw: Draw, rng: Random, num: int, apart: bool) -> Iterator[Task]:
    seen: set[str] = set()
    num_skipped = 0
    while len(seen) < num and num_skipped < PATIENCE:
        task = draw(rng)
        num_skipped += 1
        if task.id not in seen and (is_held_out(task) or not apart):
            num_skipped = 0
            seen.add(task.id)
            yield task
