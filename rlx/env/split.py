"""Tasks drawn at random, in two splits that never overlap: a hash of a task's id says which of them it is of."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import lru_cache
from hashlib import sha256
from random import Random

from rlx.types import Task

ONE_IN = 4
"""One task in this many is held out for the test split."""
PATIENCE = 1000
"""Draws of nothing new after which there is nothing more."""

Draw = Callable[[Random], Task]


def is_held_out(task: Task) -> bool:
    return is_id_held_out(task.id)


@lru_cache(maxsize=4096)
def is_id_held_out(id: str) -> bool:
    return sha256(id.encode(errors="surrogatepass")).digest()[0] % ONE_IN == 0


def split_tasks(
    name: str,
    draw: Draw,
    split: str,
    seed: int,
    num_test: int,
    *,
    apart: bool = True,
    draw_test: Draw | None = None,
    num_train: int | None = None,
) -> Iterator[Task]:
    """Endless `train` tasks for a seed, or `num_test` different `test` tasks, fewer if there are no more, which are the
    same for every seed. `name` keys the random numbers. Not `apart`: there are too few to hold any out, and both splits
    have all of them. With `num_train` those of training are a set of so many draws, maybe twice the same, in passes
    over it, each in an order of its own; the set is the same for every seed. Tests may be drawn from elsewhere."""
    if split == "test":
        return test_tasks(draw_test or draw, Random(f"{name}/test"), num_test, apart)
    if split != "train":
        raise ValueError(f"split={split}: expected train or test")
    if num_train is None:
        return train_tasks(draw, Random(f"{name}/train/{seed}"), apart)
    return passes(name, draw, num_train, apart, Random(f"{name}/passes/{seed}"))


def passes(name: str, draw: Draw, num: int, apart: bool, rng: Random) -> Iterator[Task]:
    """A task of the set is drawn when its turn comes: each has random numbers of its own."""
    while True:
        for index in rng.sample(range(num), num):
            yield next(train_tasks(draw, Random(f"{name}/set/{index}"), apart))


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
    task_ids: set[str] = set()
    num_skipped = 0
    while len(task_ids) < num and num_skipped < PATIENCE:
        task = draw(rng)
        num_skipped += 1
        if task.id not in task_ids and (is_held_out(task) or not apart):
            num_skipped = 0
            task_ids.add(task.id)
            yield task
    if not task_ids:
        raise ValueError("env: no task is held out for the test, as there are so few of them: allow for more")
