"""`python -m rlx.cluster.rank FOLDER COMMAND…`: one rank of a run, with its log in the run folder.

srun or torchrun starts one of these per rank. It records the rank that ended first, and exits with 0 after a polite
stop: a launcher that sees another exit code would kill ranks that are still saving.
"""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import FrameType
from typing import IO

from rlx.base.regular import make_inside, open_to_append
from rlx.hardware.interrupt import handling
from rlx.runs.attempts import Ended, kind_of, log_of, record_end
from rlx.runs.folder import LOGS


def main(words: Sequence[str]) -> int:
    folder, command = Path(words[0]), words[1:]
    rank = find_rank()
    make_inside(folder, LOGS)
    with open_to_append(log_of(folder, rank)) as log:
        code = run(command, [log, *([sys.stdout.buffer] if rank == 0 else [])])
    if code == 0:
        return 0
    ended = Ended(rank=rank, code=code)
    record_end(folder, ended)
    if kind_of(code, ended) == "stopped":
        return 0
    return 128 - code if code < 0 else code


def find_rank(environ: Mapping[str, str] = os.environ) -> int:
    """Return the rank of this process from torchrun's variable, else from srun's, else 0."""
    return int(environ.get("RANK") or environ.get("SLURM_PROCID") or 0)


def run(command: Sequence[str], outputs: Sequence[IO[bytes]]) -> int:
    """Run a command and return its exit code. Signals that ask for a stop are passed on, and output is copied."""
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)

    def pass_on(signum: int, frame: FrameType | None) -> None:
        process.send_signal(signum)

    copier = threading.Thread(target=copy, args=(process.stdout, outputs), daemon=True)
    with handling(pass_on):
        copier.start()
        code = process.wait()
    copier.join(timeout=5)  # a child of its own may hold the pipe open
    return code


def copy(source: IO[bytes], outputs: Sequence[IO[bytes]]) -> None:
    """Copy `source` to the outputs until its end. A broken output is dropped."""
    working = list(outputs)
    while chunk := source.read1(1 << 16):  # type: ignore[attr-defined]
        for output in list(working):
            try:
                output.write(chunk)
                output.flush()
            except OSError:
                working.remove(output)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
