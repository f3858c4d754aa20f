"""The processes of a run, started for `rlx check`: as `rlx launch` would, in a given time, watched, and none left."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from rlx.check.remains import children
from rlx.console import one_line
from rlx.hardware.command import every_rank
from rlx.hardware.profile import Hardware
from rlx.hardware.pulse import rank_path
from rlx.launch.ending import log_of, read_end
from rlx.record.folder import last_lines, read_json

SAID = "said"
"""Where in a run's folder its processes leave what they measured."""
TOLERANCE = {"float32": 1e-3, "bfloat16": 0.05}
"""Mean difference of log-probs between engine and learner that rounding explains."""
CLEAR = 4.0
"""Times the tolerance that a nudge must move log-probs by, and times that the engine must come closer."""
NUDGES, FASTER = 10, 3.0
"""Updates that a nudge takes at most, each at so many times the learning rate of the one before."""
GRACE = 15.0
"""Seconds that processes have to end once they are asked to."""
LOOK = 0.3
"""Seconds between two looks at the processes' memory."""
SUBREAPER = 36
"""prctl: be the parent of those below whose own parent has ended, so that nothing escapes the count."""


def tolerance(hardware: Hardware) -> float:
    return max(TOLERANCE[hardware.dtype], TOLERANCE[hardware.learner_dtype])


@dataclass(kw_only=True)
class HighWater:
    """What the processes below this one held at most, those of one moment together, each by its own highest until then:
    an engine may start another for a while, to look at a model's class."""

    most: int = 0
    num: int = 0

    def look(self) -> None:
        held = []
        for pid, _ in children(os.getpid()):
            with suppress(OSError):
                if is_of_the_run(Path(f"/proc/{pid}/cmdline").read_bytes()):
                    held.append(high_water(Path(f"/proc/{pid}/status").read_text()))
        if sum(held) > self.most:
            self.most, self.num = sum(held), len(held)


def is_of_the_run(command: bytes) -> bool:
    """Not a launcher's, which no plan counts."""
    return bool(command) and b"torch.distributed.run" not in command and b"rlx.launch.rank" not in command


def high_water(status: str) -> int:
    """VmHWM of /proc/N/status."""
    lines = [line.split() for line in status.splitlines() if line.startswith("VmHWM:")]
    return 1024 * int(lines[0][1]) if lines else 0


@contextmanager
def looking() -> Iterator[HighWater]:
    memory, over = HighWater(), threading.Event()

    def run() -> None:
        while not over.wait(LOOK):
            memory.look()

    thread = threading.Thread(target=run, name="memory", daemon=True)
    thread.start()
    try:
        yield memory
    finally:
        over.set()
        thread.join()


@dataclass(frozen=True, kw_only=True)
class Trial:
    """One start of the run's processes."""

    told: str
    is_good: bool
    memory: HighWater
    stray: list[str]
    """Processes that were still there when the first had ended; they are ended."""


def attempt(part: str, folder: Path, hardware: Hardware, words: Sequence[str], until: float) -> Trial:
    """The run's processes from start to end, in the time there is."""
    runs = folder / "run"
    environ = {**os.environ, "TMPDIR": str(folder / "tmp"), "RLX_CACHE": str(folder / "cache")}
    command = every_rank(hardware, runs, ["check", *words, "--inside", f"{part}:{runs}"])
    become_subreaper()
    others = {pid for pid, _ in children(os.getpid())}
    began = time.monotonic()
    with looking() as memory:
        process = subprocess.Popen(command, env=environ, stdout=sys.stderr, start_new_session=True)
        try:
            code: int | None = process.wait(max(0.0, until - time.monotonic()))
        except subprocess.TimeoutExpired:
            code = None
        finally:
            stray = end_all(process, others)
    seconds = time.monotonic() - began
    if code is None:
        told = f"not done in the time there was ({seconds:.0f} s): {phase_of(runs)}; --minutes gives more"
    elif code or not (runs / SAID / f"{part}-0.json").is_file():
        told = why(runs, code)
    else:
        return Trial(told=f"{seconds:.0f} s", is_good=True, memory=memory, stray=stray)
    return Trial(told=told, is_good=False, memory=memory, stray=[])


def become_subreaper() -> None:
    import ctypes

    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(SUBREAPER, 1, 0, 0, 0)


def end_all(process: subprocess.Popen[bytes], others: Collection[int]) -> list[str]:
    """Nothing of this process is alive afterwards; what of it still was, although the first had ended."""
    ended = process.poll() is not None

    def ours() -> dict[int, str]:
        return {pid: name for pid, name in children(os.getpid()) if pid not in others}

    stray = [f"{name} ({pid})" for pid, name in ours().items()] if ended else []
    for signum in (signal.SIGTERM, signal.SIGKILL):
        for pid in ours():
            with suppress(ProcessLookupError):
                os.kill(pid, signum)
        limit = time.monotonic() + GRACE
        while ours() and time.monotonic() < limit:
            process.poll()
            for pid in ours():
                with suppress(ChildProcessError):
                    os.waitpid(pid, os.WNOHANG)
            time.sleep(0.05)
    return stray


def phase_of(runs: Path) -> str:
    """Where the first process was."""
    return str(read_json(rank_path(runs, 0)).get("phase", "before its start"))


def why(runs: Path, code: int) -> str:
    """What the process that ended first said last."""
    ended = read_end(runs)
    said = last_lines(log_of(runs, ended.rank if ended else 0), num=1)
    return one_line(f"{ended or f'exit code {code}'}: {said[0] if said else 'it said nothing'}", 400)
