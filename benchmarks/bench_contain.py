"""Measure calls of the Python tool a second: CPython in the container beside monty, in one run. A ratio says more than
a rate on a machine that others use too.

    python benchmarks/bench_contain.py --calls 300
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable

from rlx.tool.python import Python

CODES = {
    "monty": ("monty", "print(sum(range(100)))"),
    "cpython, standard library": ("cpython", "print(sum(range(100)))"),
    "cpython, numpy": ("cpython", "import numpy as np\nprint(np.arange(100).sum())"),
    "cpython, sympy": ("cpython", "import sympy\nprint(sympy.Integer(4950))"),
}


def calls_per_second(call: Callable[[], object], num: int) -> float:
    """Time warm calls, one after the other."""
    call()
    began = time.perf_counter()
    for _ in range(num):
        call()
    return num / (time.perf_counter() - began)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--calls", type=int, default=300, help="calls of each kind")
    num, base = parser.parse_args().calls, 0.0
    for name, (interpreter, code) in CODES.items():
        tool = Python(interpreter=interpreter, seconds=20.0, memory_mb=512, max_characters=1000)  # type: ignore[arg-type]
        rate = calls_per_second(lambda tool=tool, code=code: tool.run(code), num)  # type: ignore[misc]
        base = base or rate
        print(f"{name:<28} {rate:8.0f} calls/s   {rate / base:6.3f} of monty")


if __name__ == "__main__":
    main()
