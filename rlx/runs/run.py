"""One run, read from its folder. Every command that shows runs reads them here.

The folder may be a stranger's, and a file of it damaged: `read_run` reads the intact files and lists the others.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

from rlx.base.console import one_line
from rlx.base.limits import MistakeError
from rlx.base.regular import inside
from rlx.runs.attempts import JOB
from rlx.runs.files import EpisodeFile, episode_files
from rlx.runs.find import is_run, runs_below, short_names
from rlx.runs.folder import CHECKPOINTS, CONFIG, LOGS, METRICS, SUMMARY, FolderError, flatten, read_config, steps_in
from rlx.runs.single_files import read_json
from rlx.runs.slurm import Record
from rlx.runs.state import WAITING, Outcome, State, ask_slurm, job_of, state_of
from rlx.runs.summary import Summary, read_summary
from rlx.runs.track import is_number, last_metrics

T = TypeVar("T")

RECENT = 96
"""Number of last lines of metrics.jsonl that a run is read with."""
RATED = 20
"""Number of last steps for the mean time of a step."""
LONGEST = 1e9
"""Largest number of seconds of a step, 30 years."""
DAMAGE = (
    *(FolderError, MistakeError, OSError, ValueError, LookupError, TypeError, AttributeError),
    *(ArithmeticError, RecursionError),
)
"""Errors of a file that cannot be read."""


@dataclass(frozen=True, kw_only=True)
class Damage:
    """A file or a folder of a run that cannot be read."""

    place: str
    reason: str
    error: Exception | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, kw_only=True)
class StoredRun:
    """Content and state of a run's folder at one moment."""

    folder: Path
    name: str
    """Last parts of its path, enough to distinguish the runs of one reading."""
    state: State
    where: str = ""
    """Machine of a run at work; why a queued one waits."""
    job: str = ""
    config: Mapping[str, Any] = field(default_factory=dict)
    """Configuration as a tree; empty if it cannot be read."""
    summary: Summary | None = None
    """Summary; None before the first end of the run, or if it cannot be read."""
    last_metrics: tuple[Mapping[str, Any], ...] = ()
    """Last lines of metrics.jsonl, at most RECENT."""
    checkpoints: tuple[int, ...] = ()
    """Steps of its checkpoints, by their names, in order."""
    steps: int | None = None
    """Number of steps that the run is to take; None if it is unknown, and for an evaluation."""
    damage: tuple[Damage, ...] = ()
    """Unreadable parts of the folder, less those of metrics.jsonl and of its episodes."""

    @cached_property
    def settings(self) -> dict[str, Any]:
        """Return the flat configuration: `algo.optimizer.lr` to its value."""
        return flatten(self.config)

    @property
    def is_evaluation(self) -> bool:
        return self.state == "finished" and not self.last_metrics

    @property
    def step(self) -> int | None:
        """Return the last step, 0 before the first; None for an evaluation, which has no steps."""
        line = self.last_metrics[-1]["step"] if self.last_metrics else 0
        return None if self.is_evaluation else max((line, *self.checkpoints))

    @property
    def seconds(self) -> float | None:
        """Return the mean seconds of a recent step; None without one."""
        times = [float(line["time/step"]) for line in self.last_metrics[-RATED:] if is_duration(line.get("time/step"))]
        return sum(times) / len(times) if times else None

    @property
    def left(self) -> float | None:
        """Return the estimated seconds until the last step; None unless the run goes on by itself."""
        if self.seconds is None or self.step is None or self.steps is None or self.state not in WAITING:
            return None
        return self.seconds * min(max(0, self.steps - self.step), sys.maxsize)

    @property
    def finished_steps(self) -> int | None:
        """Return the steps that the run had when it finished, though it may have been extended; None without that."""
        return self.summary.steps if self.summary is not None and self.summary.status == "finished" else None

    @property
    def files(self) -> list[EpisodeFile]:
        """Return its files of episodes, training steps first, as they are now."""
        return episode_files(self.folder)[0]


def read_run(folder: Path, record: Record | None = None, name: str = "") -> StoredRun:
    """Read the run in a folder. `record` is SLURM's answer about its job, if SLURM was asked."""
    has_begun = any(os.path.lexists(folder / name) for name in (CONFIG, METRICS, SUMMARY))
    config, bad_config = attempt(folder, CONFIG, lambda: read_config(folder), is_wanted=has_begun)
    summary, bad_summary = attempt(folder, SUMMARY, lambda: read_summary(folder / SUMMARY))
    lines, bad_metrics = attempt(folder, METRICS, lambda: last_metrics(folder / METRICS, RECENT))
    checkpoints, bad_checkpoints = attempt(folder, CHECKPOINTS, lambda: steps_in(inside(folder, CHECKPOINTS)))
    config, lines, checkpoints = config or {}, lines or [], checkpoints or []
    outcome = outcome_of(folder, config, summary, lines)
    place, bad_state = attempt(folder, ".", lambda: state_of(folder, record, outcome))
    state, where = place or UNKNOWN
    step = max((lines[-1]["step"] if lines else 0, *checkpoints))
    ended = summary if state == "finished" else None
    return StoredRun(
        folder=folder,
        name=name or folder.name,
        state="unreadable" if bad_summary and state == "killed" else state,
        where=where,
        job=job_of(folder),
        config=config,
        summary=summary,
        last_metrics=tuple(lines),
        checkpoints=tuple(checkpoints),
        steps=None if state == "finished" and not lines else wanted_steps(folder, config, ended, step),
        damage=(*bad_config, *bad_summary, *bad_metrics, *bad_checkpoints, *bad_state),
    )


UNKNOWN: tuple[State, str] = ("unreadable", "")


def attempt(
    folder: Path, part: str, read: Callable[[], T], *, is_wanted: bool = False
) -> tuple[T | None, tuple[Damage, ...]]:
    """Return the content of a part of a run, None without it, and the damage if it cannot be read. A part that
    `is_wanted` is damage if it is missing."""
    if not is_wanted and not os.path.lexists(folder / part):
        return None, ()
    try:
        return read(), ()
    except DAMAGE as error:
        return None, (Damage(place=part, reason=reason_of(error, folder), error=error),)


def reason_of(error: Exception, folder: Path, name: str = "") -> str:
    """Return the reason of an error in one line, with the run's name in place of its folder's path."""
    text = str(error).replace(str(folder), name or folder.name)
    return one_line(text.removeprefix(f"{name or folder.name}/").partition("; restore it")[0], 200)


def outcome_of(
    folder: Path, config: Mapping[str, Any], summary: Summary | None, lines: Sequence[Mapping[str, Any]]
) -> Outcome:
    """Return what the files of a run say of its last end."""
    steps = config.get("steps")
    is_extended = summary is not None and summary.steps is not None and isinstance(steps, int) and steps > summary.steps
    warms = not lines and summary is None and bool(config.get("warm_start")) and not episode_files(folder)[0]
    return Outcome(status=None if summary is None else summary.status, is_extended=is_extended, warms=warms)


def wanted_steps(folder: Path, config: Mapping[str, Any], summary: Summary | None, step: int) -> int | None:
    """Return the number of steps that a run at `step` is to take: by the `summary` of a finished run, else by the
    configuration, else by the SLURM job. A number below `step` is ignored."""
    job = read_json(folder, LOGS, JOB)
    numbers = (None if summary is None else summary.steps, config.get("steps"), job.get("steps"))
    return next((steps for steps in numbers if isinstance(steps, int) and steps >= step), None)


def is_duration(value: Any) -> bool:
    """Return True if a value of a stranger's file is a number of seconds that a step can take."""
    return is_number(value) and 0 <= value <= LONGEST


def read_runs(folders: Sequence[Path], *, nested: bool = True) -> list[StoredRun]:
    """Read the runs at and below these folders (`runs_below`), each once, with SLURM's answers."""
    runs = list(dict.fromkeys(run for folder in folders for run in runs_below(folder, nested=nested)))
    records = ask_slurm([job for job in map(job_of, runs) if job])
    names = short_names(runs) if runs else []
    return [read_run(run, records.get(job_of(run)), name) for run, name in zip(runs, names, strict=True)]


def require_run(folder: Path, name: str = "") -> StoredRun:
    """Read a run whose configuration and summary must be readable if they are there; FolderError where the folder is
    no run."""
    if not is_run(folder):
        raise FolderError(f"{one_line(str(folder), 200)} is no run folder: it has no {CONFIG} of a run")
    run = read_run(folder, name=name)
    for damage in run.damage:
        if damage.place in (CONFIG, SUMMARY) and damage.error is not None:
            raise damage.error
    return run
