"""`python -m rlx.launch.watch --limit N FOLDERS COMMAND…`: the one command of a batch script.

It starts the ranks (srun, torchrun), waits, and decides what their end means: finished, failed, or to be tried again
from the newest checkpoint. Then it has SLURM requeue the job, or, where there is no batch job, starts the command anew.

FOLDERS is a JSON file: the run folder of each task of the job array. `{folder}` in COMMAND stands for it.
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

from rlx.hardware.interrupt import handling
from rlx.launch.ending import (
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
from rlx.launch.slurm import Record, SlurmError, ask, own_id, requeue
from rlx.record.folder import LOGS

FOLDER = "{folder}"
NOT_ANSWERED = Record(state="UNKNOWN")


class Ears:
    """The signals that came while the ranks ran. Each asks them to stop; the second Ctrl-C ends this process."""

    def __init__(self) -> None:
        self.heard: list[int] = []
        self.process: subprocess.Popen[bytes] | None = None

    def receive(self, signum: int, frame: FrameType | None) -> None:
        if signum == signal.SIGINT and signum in self.heard:
            raise KeyboardInterrupt
        self.heard.append(signum)
        if self.process is not None and self.process.poll() is None:
            self.process.send_signal(signal.SIGUSR2)  # what srun and torchrun pass on without ending the ranks


def watch(command: Sequence[str], folder: Path, limit: int) -> int:
    """Attempts, until the run has ended or this job has; the exit code."""
    words = [word.replace(FOLDER, str(folder)) for word in command]
    (folder / LOGS).mkdir(parents=True, exist_ok=True)
    job = own_id() if os.environ.get("ENVIRONMENT") == "BATCH" else None
    ears = Ears()
    with handling(ears.receive):
        while True:
            attempt, code = try_once(words, folder, job, ears)
            record_attempt(folder, attempt)
            if attempt.kind == "finished":
                return 0
            say(f"{attempt.ended or 'the ranks ended'}: {attempt.kind} at step {attempt.after}")
            if attempt.kind == "stopped" and job is None:
                return 130 if signal.SIGINT in ears.heard else STOPPED
            if not may_go_on(read_attempts(folder), limit):
                if attempt.kind != "failed":
                    say(f"given up: {limit} attempts in a row came no further than step {attempt.after}")
                return code or 1
            if job is not None:
                return pass_back(job)


def try_once(words: Sequence[str], folder: Path, job: str | None, ears: Ears) -> tuple[Attempt, int]:
    """Start the ranks and wait for their end, or for that of this job's time: SLURM lets us see no later one."""
    before = newest_step(folder)
    (folder / LOGS / ENDED).unlink(missing_ok=True)
    ears.process = subprocess.Popen(words, start_new_session=True)
    code = wait(ears.process, job, ears)
    ended, after = read_end(folder), newest_step(folder)
    kind: Kind = "stopped" if ended is None and code and ears.heard else kind_of(code, ended)
    preempted = job is not None and kind != "finished" and state_of(job).is_preempted
    own = Attempt(kind=kind, job=own_id(), before=before, after=after, is_preempted=preempted, ended=ended)
    return own, code


def wait(process: subprocess.Popen[bytes], job: str | None, ears: Ears) -> int:
    asked = False
    while True:
        try:
            return process.wait(timeout=0.5)
        except subprocess.TimeoutExpired:
            if job is not None and signal.SIGTERM in ears.heard and not asked:
                asked = True
                if state_of(job).is_out_of_time:
                    return STOPPED


def pass_back(job: str) -> int:
    """Give the job back to SLURM's queue, unless someone cancelled it."""
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


def own_folder(folders: Path, environ: Mapping[str, str] = os.environ) -> Path:
    """The run folder of this task of the job array."""
    listed = json.loads(folders.read_text(encoding="utf-8"))
    return Path(listed[int(environ.get("SLURM_ARRAY_TASK_ID", 0))])


def main(words: Sequence[str]) -> int:
    _, limit, folders, *command = words
    return watch(command, own_folder(Path(folders)), int(limit))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
