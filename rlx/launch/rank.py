"""`python -m rlx.launch.rank FOLDER COMMAND…`: one rank of a run, with its log in the run folder.

srun or torchrun starts one of these per rank. It says who ended first, and leaves with 0 when the run was stopped
politely: a launcher that saw one rank leave otherwise would kill those that are still saving.
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

from rlx.hardware.interrupt import handling
from rlx.launch.ending import Ended, kind_of, log_of, record_end
from rlx.record.folder import LOGS


def main(words: Sequence[str]) -> int:
    folder, command = Path(words[0]), words[1:]
    rank = own_rank()
    (folder / LOGS).mkdir(parents=True, exist_ok=True)
    with open(log_of(folder, rank), "ab", buffering=0) as log:
        code = run(command, [log, *([sys.stdout.buffer] if rank == 0 else [])])
    if code == 0:
        return 0
    ended = Ended(rank=rank, code=code)
    record_end(folder, ended)
    if kind_of(code, ended) == "stopped":
        return 0
    return 128 - code if code < 0 else code


def own_rank(environ: Mapping[str, str] = os.environ) -> int:
    """torchrun's number for this process, else srun's."""
    return int(environ.get("RANK") or environ.get("SLURM_PROCID") or 0)


def run(command: Sequence[str], outputs: Sequence[IO[bytes]]) -> int:
    """Run it, pass on the signals that ask it to stop, and copy what it prints; the number of its end."""
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
    """Until the end of `source`; an output that is gone is left out."""
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
