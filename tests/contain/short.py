"""A module for a contained server whose machine is short of processes: as many forks fail as a request says."""

from __future__ import annotations

import os
from typing import Any

failing = 0
fork = os.fork


def fork_or_fail() -> int:
    global failing
    if failing:
        failing -= 1
        raise BlockingIOError(11, "Resource temporarily unavailable")
    return fork()


os.fork = fork_or_fail


def prepare(asked: int) -> None:
    global failing
    failing = asked


def answer(asked: int) -> Any:
    return asked
