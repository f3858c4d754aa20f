"""Measure how many four-number Countdown problems per second the exact solver solves, on one core."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Sequence
from itertools import islice

from rlx.env.countdown.countdown import Countdown
from rlx.env.countdown.solver import solutions, solve, values

Problem = tuple[list[int], int]


def draw(num: int) -> list[Problem]:
    """Half solvable, half with a random target, most of which have no solution."""
    rng = random.Random(0)
    tasks = islice(Countdown(numbers=(4,)).tasks("train", 0), num // 2)
    solvable = [(list(task.data["numbers"]), task.data["target"]) for task in tasks]
    return solvable + [([rng.randint(1, 99) for _ in range(4)], rng.randint(10, 100)) for _ in range(num - num // 2)]


def rate(run: Callable[[Problem], object], problems: Sequence[Problem]) -> float:
    start = time.perf_counter()
    for problem in problems:
        run(problem)
    return len(problems) / (time.perf_counter() - start)


def main() -> None:
    problems = draw(1000)
    print(f"solver, one solution:  {rate(lambda problem: solve(*problem), problems):8.0f} problems/s (at least 300)")
    print(f"solver, all solutions: {rate(lambda problem: list(solutions(*problem)), problems):8.0f} problems/s")
    print(f"solver, all values:    {rate(lambda problem: values(problem[0]), problems[:200]):8.0f} problems/s")


if __name__ == "__main__":
    main()
