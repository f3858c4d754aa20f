"""A run's processes under `rlx check`: started as by `rlx launch`, watched, limited in time, and ended completely."""

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

from rlx.base.console import one_line
from rlx.cluster.check.remains import children
from rlx.hardware.command import every_rank
from rlx.hardware.profile import Hardware
from rlx.hardware.pulse import rank_path
from rlx.runs.attempts import log_of, read_end
from rlx.runs.single_files import last_lines, read_json

MEASURED = "measured"
"""Folder in a run's folder for the measurements of its processes."""
CLEAR = 4.0
"""Least effect of a nudge on log-probs, in units of the tolerance; also the factor by which the engine must come
closer."""
NUDGES, FASTER = 10, 3.0
"""Largest number of updates of a nudge, and the factor between the learning rates of two of them."""
GRACE = 15.0
"""Seconds for processes to end after a request to end."""
LOOK = 0.3
"""Seconds between two readings of the processes' memory."""
SUBREAPER = 36
"""Option of prctl that makes this process the parent of orphaned descendants, so none escapes the count."""


@dataclass(kw_only=True)
class HighWater:
    """Largest total memory of the processes below this one, in bytes. Each reading sums what the processes alive at
    that moment hold at most: an engine may start a short-lived process to inspect a model's class."""

    most: int = 0
    num: int = 0

    def look(self) -> None:
        process_bytes = []
        for pid, _ in sorted(children(os.getpid())):
            with suppress(OSError):
                if is_of_the_run(Path(f"/proc/{pid}/cmdline").read_bytes()):
                    process_bytes.append(held_at_most(Path(f"/proc/{pid}/status").read_text(), rollup(pid)))
        if sum(process_bytes) > self.most:
            self.most, self.num = sum(process_bytes), len(process_bytes)


def is_of_the_run(command: bytes) -> bool:
    """Return False for a launcher's process, which no plan counts."""
    return bool(command) and b"torch.distributed.run" not in command and b"rlx.cluster.rank" not in command


def rollup(pid: int) -> str:
    """Return the text of /proc/PID/smaps_rollup; none where the kernel does not say it."""
    with suppress(OSError):
        return Path(f"/proc/{pid}/smaps_rollup").read_text()
    return ""


def held_at_most(status: str, rolled: str) -> int:
    """Return the largest memory of a process in bytes, VmHWM of its status, where a page of n processes counts as 1/n
    of a page in each: HWM - RSS + PSS. A process that has just been forked shares all of its parent's pages, so without
    this both would count in full."""
    return bytes_of("VmHWM", status) - (bytes_of("VmRSS", status) - bytes_of("Pss", rolled) if rolled else 0)


def bytes_of(name: str, text: str) -> int:
    """Read the line `NAME: N kB` of a text of /proc, in bytes; 0 where it has none."""
    lines = [line.split() for line in text.splitlines() if line.startswith(f"{name}:")]
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

    report: str
    is_good: bool
    memory: HighWater
    stray: list[str]
    """Processes still alive after the first had ended; they were killed."""


def attempt(part: str, folder: Path, hardware: Hardware, words: Sequence[str], deadline: float) -> Trial:
    """Run the processes from start to end, within the time available."""
    runs = folder / "run"
    environ = {**os.environ, "TMPDIR": str(folder / "tmp"), "RLX_CACHE": str(folder / "cache")}
    command = every_rank(hardware, runs, ["check", *words, "--inside", f"{part}:{runs}"])
    become_subreaper()
    others = {pid for pid, _ in children(os.getpid())}
    began = time.monotonic()
    with looking() as memory:
        process = subprocess.Popen(command, env=environ, stdout=sys.stderr, start_new_session=True)
        try:
            code: int | None = process.wait(max(0.0, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            code = None
        finally:
            stray = end_all(process, others)
    seconds = time.monotonic() - began
    if code is None:
        report = f"not done in the time there was ({seconds:.0f} s): {phase_of(runs)}; --minutes gives more"
    elif code or not (runs / MEASURED / f"{part}-0.json").is_file():
        report = why(runs, code)
    else:
        return Trial(report=f"{seconds:.0f} s", is_good=True, memory=memory, stray=stray)
    return Trial(report=report, is_good=False, memory=memory, stray=[])


def become_subreaper() -> None:
    import ctypes

    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(SUBREAPER, 1, 0, 0, 0)


def end_all(process: subprocess.Popen[bytes], others: Collection[int]) -> list[str]:
    """End all processes of this start. Return those that were still alive although the first had ended."""
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
    """Return the phase of the first process."""
    return str(read_json(rank_path(runs, 0)).get("phase", "before its start"))


def why(runs: Path, code: int) -> str:
    """Return the last line of the process that ended first."""
    ended = read_end(runs)
    lines = last_lines(log_of(runs, ended.rank if ended else 0), num=1)
    return one_line(f"{ended or f'exit code {code}'}: {lines[0] if lines else 'it said nothing'}", 400)
