"""Measure calls of the Python tool: CPython in the container beside monty, in one run.

Both rates are of calls made one after the other. On a machine that others use too, the one per second of processor time
says more: it counts the time of this process, of the servers and of every process that a call had.

    OMP_NUM_THREADS=1 python benchmarks/bench_contain.py --calls 300
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

from rlx.tool.python import Python

CODES = {
    "monty": ("monty", "print(sum(range(100)))"),
    "cpython, standard library": ("cpython", "print(sum(range(100)))"),
    "cpython, numpy": ("cpython", "import numpy as np\nprint(np.arange(100).sum())"),
    "cpython, sympy": ("cpython", "import sympy\nprint(sympy.Integer(4950))"),
    "cpython, numpy and sympy": (
        "cpython",
        "import numpy as np, sympy\nprint(sympy.Integer(int(np.arange(100).sum())))",
    ),
}
SETTLING = 0.2
"""Seconds until the last call's process has ended."""


def processes(pid: int) -> Iterator[int]:
    """Yield a process and all that it started, in turn."""
    yield pid
    with suppress(OSError):
        for task in Path(f"/proc/{pid}/task").iterdir():
            for child in (task / "children").read_text().split():
                yield from processes(int(child))


def cpu_seconds() -> float:
    """Return the processor time of this process and of all that it started, ended ones included."""
    total = 0
    for pid in processes(os.getpid()):
        with suppress(OSError):
            words = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
            total += sum(map(int, words[11:15]))
    return total / os.sysconf("SC_CLK_TCK")


def rates(call: Callable[[], object], num: int) -> tuple[float, float]:
    """Time warm calls, one after the other: calls per second, and per second of processor time."""
    call()
    time.sleep(SETTLING)
    used, began = cpu_seconds(), time.perf_counter()
    for _ in range(num):
        call()
    wall = time.perf_counter() - began
    time.sleep(SETTLING)
    return num / wall, num / max(cpu_seconds() - used, 1e-2)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--calls", type=int, default=300, help="calls of each kind")
    num = parser.parse_args().calls
    for name, (interpreter, code) in CODES.items():
        tool = Python(interpreter=interpreter, seconds=20.0, memory_mb=512, max_characters=1000)  # type: ignore[arg-type]
        wall, cpu = rates(lambda tool=tool, code=code: tool.run(code), num)  # type: ignore[misc]
        print(f"{name:<28} {wall:6.0f} calls/s   {cpu:6.0f} calls per CPU-second")
    print(f"load average {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")


if __name__ == "__main__":
    main()
