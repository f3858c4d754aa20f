"""How many sandboxed Python calls per second the tool does, from one thread and from several."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor

from rlx.tool.python import Python

NUM_CALLS = 8000


def rate(python: Python, num_threads: int) -> float:
    codes = [f"(({index} - 35) * 19)" for index in range(NUM_CALLS)]
    with ThreadPoolExecutor(num_threads) as threads:
        list(threads.map(python.run, codes[:100]))
        start = time.perf_counter()
        results = list(threads.map(python.run, codes))
        seconds = time.perf_counter() - start
    assert [result.output for result in results] == [str((index - 35) * 19) for index in range(NUM_CALLS)]
    return NUM_CALLS / seconds


def main() -> None:
    for num_threads in (1, 2, 4, 8):
        print(f"python tool, {num_threads} threads: {rate(Python(), num_threads):8.0f} calls/s (at least 2,000)")


if __name__ == "__main__":
    main()
