"""`python -m rlx.cluster.watch --limit N FOLDERS COMMAND…`: the one command of a batch script.

The command starts the ranks (srun, torchrun), waits, and classifies their end: finished, failed, or to be tried again
from the newest checkpoint. For another attempt SLURM requeues the job; without a batch job the command starts the ranks
again.

FOLDERS is a JSON file: the run folder of each task of the job array. `{folder}` in COMMAND is replaced by it.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import FrameType

from rlx.base.regular import inside, make_inside, read_bounded
from rlx.hardware.interrupt import handling
from rlx.runs.attempts import (
    ENDED,
    STOPPED,
    Attempt,
    Kind,
    kind_of,
    may_go_on,
    newest_step,
    read_attempts,
    read_end,
    record_attempt,
)
from rlx.runs.folder import LOGS
from rlx.runs.slurm import Record, SlurmError, ask, find_job, requeue

FOLDER = "{folder}"
NOT_ANSWERED = Record(state="UNKNOWN")


class StopSignals:
    """Signals received while the ranks ran. Each asks the ranks to stop; the second Ctrl-C ends this process."""

    def __init__(self) -> None:
        self.received: list[int] = []
        self.process: subprocess.Popen[bytes] | None = None

    def receive(self, signum: int, frame: FrameType | None) -> None:
        if signum == signal.SIGINT and signum in self.received:
            raise KeyboardInterrupt
        self.received.append(signum)
        if self.process is not None and self.process.poll() is None:
            self.process.send_signal(signal.SIGUSR2)  # what srun and torchrun pass on without ending the ranks


def watch(command: Sequence[str], folder: Path, limit: int) -> int:
    """Start attempts until the run or this job ends; return the exit code."""
    words = [word.replace(FOLDER, str(folder)) for word in command]
    make_inside(folder, LOGS)
    job = find_job() if os.environ.get("ENVIRONMENT") == "BATCH" else None
    signals = StopSignals()
    with handling(signals.receive):
        while True:
            attempt, code = try_once(words, folder, job, signals)
            record_attempt(folder, attempt)
            if attempt.kind == "finished":
                return 0
            say(f"{attempt.ended or 'the ranks ended'}: {attempt.kind} at step {attempt.after}")
            if attempt.kind == "stopped" and job is None:
                return 130 if signal.SIGINT in signals.received else STOPPED
            if not may_go_on(read_attempts(folder), limit):
                if attempt.kind != "failed":
                    say(f"given up: {limit} attempts in a row came no further than step {attempt.after}")
                return code or 1
            if job is not None:
                return pass_back(job)


def try_once(words: Sequence[str], folder: Path, job: str | None, signals: StopSignals) -> tuple[Attempt, int]:
    """Start the ranks and wait for their end or that of this job's time. After that time SLURM allows no later look."""
    before = newest_step(folder)
    (inside(folder, LOGS) / ENDED).unlink(missing_ok=True)
    signals.process = subprocess.Popen(words, start_new_session=True)
    code = wait(signals.process, job, signals)
    ended, after = read_end(folder), newest_step(folder)
    kind: Kind = "stopped" if ended is None and code and signals.received else kind_of(code, ended)
    preempted = job is not None and kind != "finished" and state_of(job).is_preempted
    attempt = Attempt(kind=kind, job=find_job(), before=before, after=after, is_preempted=preempted, ended=ended)
    return attempt, code


def wait(process: subprocess.Popen[bytes], job: str | None, signals: StopSignals) -> int:
    state_checked = False
    while True:
        try:
            return process.wait(timeout=0.5)
        except subprocess.TimeoutExpired:
            if job is not None and signal.SIGTERM in signals.received and not state_checked:
                state_checked = True
                if state_of(job).is_out_of_time:
                    return STOPPED


def pass_back(job: str) -> int:
    """Requeue the job, unless someone cancelled it."""
    record = state_of(job)
    if record.state not in ("RUNNING", "UNKNOWN") and not record.is_out_of_time:
        say(f"job {job} is {record.state.lower()}: not requeued by itself")
        return STOPPED
    try:
        say(f"job {job} is requeued")
        requeue(job)
    except SlurmError as error:
        say(f"job {job} could not be requeued: {error}")
    return STOPPED


def state_of(job: str) -> Record:
    try:
        return ask([job]).get(job, NOT_ANSWERED)
    except SlurmError as error:
        say(str(error))
        return NOT_ANSWERED


def say(text: str) -> None:
    print(f"rlx launch: {text}", file=sys.stderr, flush=True)


def find_folder(folders: Path, environ: Mapping[str, str] = os.environ) -> Path:
    """Return the run folder of this task of the job array."""
    listed = json.loads(read_bounded(folders))
    return Path(listed[int(environ.get("SLURM_ARRAY_TASK_ID", 0))])


def main(words: Sequence[str]) -> int:
    _, limit, folders, *command = words
    return watch(command, find_folder(Path(folders)), int(limit))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
