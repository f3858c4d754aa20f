"""The runs of a reproduction, some at a time, each in a process of its own and after those that it waits for."""

from __future__ import annotations

import shlex
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from rlx.base.console import Screen, duration
from rlx.base.regular import make_parent, open_to_append
from rlx.hardware.interrupt import listen
from rlx.lab.reproduce.members import Member
from rlx.lab.reproduce.shared import Shared, choose
from rlx.runs.folder import CONFIG, LOCK, is_finished, read_config, refuse_differences
from rlx.runs.lock import HeldError, hold
from rlx.settings.compose import build_run, compose

PAUSE = 0.2
"""Seconds between looks at what has ended."""


class ReproduceError(RuntimeError):
    """A run of a reproduction failed; the message names the run's log in one line."""


@dataclass(frozen=True, kw_only=True)
class Playing:
    """A run under way."""

    member: Member
    process: subprocess.Popen[bytes]
    since: float = field(default_factory=time.monotonic)


WordsOf = Callable[[Member], Sequence[str]]
"""A run's words, which may depend on what has been run before it."""


def play_all(
    members: Sequence[Member],
    words_of: WordsOf,
    jobs: int,
    screen: Screen,
    shared: Mapping[str, Shared],
    check: Callable[[Member], None],
) -> None:
    """Every run, at most `jobs` at a time. One that fails, or is refused by `check` when it has ended, ends the others,
    which save themselves."""
    left, playing = list(members), dict[str, Playing]()
    reported: set[str] = set()
    with listen() as interrupt, ending(playing):
        while left or playing:
            interrupt.check()
            unfinished = {candidate.name for candidate in left} | set(playing)
            ready = [candidate for candidate in left if not unfinished & candidate.waits_for]
            busy = [
                candidate for candidate in ready if is_held(candidate.folder)
            ]  # their reproduction was killed: they go on alone
            for name in sorted({candidate.name for candidate in busy} - reported):
                screen.say(f"{name}: under way already, waited for")
                reported.add(name)
            free = [candidate for candidate in ready if candidate not in busy]
            while free and len(playing) < jobs:
                member = choose(free, [active.member for active in playing.values()], shared)
                free.remove(member)
                left.remove(member)
                begun = begin(member, words_of(member), screen)
                if begun is None:
                    check(member)
                else:
                    playing[member.name] = begun
            for name, running in list(playing.items()):
                if running.process.poll() is not None:
                    del playing[name]
                    finish(running, screen)
                    check(running.member)
            time.sleep(PAUSE if left or playing else 0)


def is_held(folder: Path) -> bool:
    """Return whether a process works in a run's folder."""
    if not folder.is_dir():
        return False
    try:
        with hold(folder / LOCK):
            return False
    except HeldError:
        return True


def begin(member: Member, words: Sequence[str], screen: Screen) -> Playing | None:
    """Start or resume a run; return None for a run that finished with these words."""
    if is_done(member.folder, words):
        screen.say(f"{member.name}: finished before")
        return None
    run = build_run(compose(words), member.folder)
    submitted = any(word.startswith("hydra/launcher=") for word in words)
    verb = "launch" if run.hardware.num_processes > 1 and not submitted else "train"
    make_parent(member.folder)
    command = [sys.executable, "-m", "rlx", verb, *words, f"hydra.run.dir={member.folder}"]
    with open_to_append(log_of(member)) as log:
        log.write(f"$ {shlex.join(command)}\n".encode())
        log.flush()
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT)
    screen.say(f"{member.name}: begun, said in {log_of(member)}")
    return Playing(member=member, process=process)


def is_done(folder: Path, words: Sequence[str]) -> bool:
    """Return whether a run is finished; FolderError if the stored configuration differs from these words."""
    if not (folder / CONFIG).exists():
        return False
    old, new = read_config(folder), compose([word for word in words if not word.startswith("hydra")])
    done = is_finished(folder, old, new)
    refuse_differences(folder, old, new, done=done)
    return done


def log_of(member: Member) -> Path:
    return member.folder.with_name(f"{member.folder.name}.log")


def finish(playing: Playing, screen: Screen) -> None:
    name, code = playing.member.name, playing.process.returncode
    if code:
        raise ReproduceError(
            f"{name} failed with exit code {code}: see {log_of(playing.member)}; the same command goes on with it"
        )
    screen.say(f"{name}: finished in {duration(time.monotonic() - playing.since)}")


@contextmanager
def ending(playing: Mapping[str, Playing]) -> Iterator[None]:
    """However the block ends, ask what still runs to save itself, and wait for it."""
    try:
        yield
    finally:
        for running in playing.values():
            running.process.terminate()
        for running in playing.values():
            running.process.wait()
