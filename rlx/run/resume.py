"""Find where a run continues, by the files in its folder, and name damaged files before anything is overwritten."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from rlx.algo.parts import begin_state
from rlx.learner.checkpoint import newest_good
from rlx.run import curriculum
from rlx.run.ending import read_finished
from rlx.run.execution import Execution, RunError
from rlx.run.progress import Progress, ProgressError, read_progress
from rlx.run.trainee import Trainee
from rlx.runs.folder import METRICS, SUMMARY
from rlx.runs.provenance import changes
from rlx.runs.run import require_run
from rlx.runs.single_files import copy_aside, set_aside
from rlx.runs.store import load as load_groups
from rlx.runs.store import step_path
from rlx.runs.summary import Summary
from rlx.runs.track import metrics_gap, truncate_metrics
from rlx.types import Group

SHOWN = 5
"""Changes that an error names."""
BEGIN_AGAIN = "restore one, or move what is there away to begin again"


def resume(execution: Execution, trainee: Trainee) -> dict[int, list[Group]]:
    """Load the newest good checkpoint and its progress, and cut the metrics back to it. Return the rollouts that were
    played ahead, by step."""
    newest = newest_of(execution)
    start = replace(
        execution.progress, step=0, memory=begin_state(execution.run.algo), counts=curriculum.begin(execution.run)
    )
    if newest is None:
        refuse_lost(execution)
        execution.progress = start
    else:
        progress = continue_from(execution, newest, start)
        trainee.learner.load(newest, execution.process.pulse.beat)
        execution.progress = progress
        execution.process.screen.say(f"resumed from {newest}")
    step = execution.progress.step
    execution.process.ranks.first(lambda: cut_metrics(execution, step))
    return (
        {}
        if newest is None
        else {ahead: load_groups(step_path(newest, ahead + 1)) for ahead in execution.progress.ahead}
    )


def continue_from(execution: Execution, checkpoint: Path, start: Progress) -> Progress:
    """Return the progress that a checkpoint holds, with the states of a `start` where it holds none, and the cost,
    warnings and provenance of both. RunError where the run cannot continue from it."""
    try:
        progress = read_progress(checkpoint)
    except ProgressError as error:
        raise RunError(f"{error}: {BEGIN_AGAIN}") from None
    accept_changes(execution, checkpoint, list(changes(progress.provenance, execution.record())))
    return replace(
        progress,
        memory=progress.memory or start.memory,
        counts=progress.counts or start.counts,
        cost=progress.cost + start.cost,
        warnings=tuple(dict.fromkeys((*progress.warnings, *execution.progress.warnings))),
    )


def accept_changes(execution: Execution, checkpoint: Path, changed: Sequence[str]) -> None:
    """Refuse to continue with other code, packages or data than the checkpoint was made with, unless the user's word
    names just this state of them; then the change is a warning."""
    if not changed:
        return
    text = "; ".join(changed[:SHOWN]) + (f"; and {len(changed) - SHOWN} more" if len(changed) > SHOWN else "")
    digest = execution.record().digest
    if execution.run.checkpoint.accept != digest:
        raise RunError(
            f"{checkpoint} was made with other code or data ({text}): restore these, or go on with "
            f"checkpoint.accept={digest}"
        )
    execution.warn(f"the run goes on from {checkpoint.name} with other code or data: {text}")


def refuse_lost(execution: Execution) -> None:
    """Refuse to begin a finished run again that lost its checkpoints: its metrics would be dropped."""

    def look() -> None:
        if require_run(execution.run.folder).finished_steps is not None:
            path = execution.run.folder / SUMMARY
            raise RunError(f"{path} is of a finished run, of which no checkpoint is left: choose another hydra.run.dir")

    execution.process.ranks.first(look)


def cut_metrics(execution: Execution, step: int) -> None:
    """Drop the metrics of steps that will be done again. Where some of those before are missing, say so, and keep the
    file as it was."""
    path = execution.run.folder / METRICS
    missing = metrics_gap(path, step)
    if missing:
        copied = f"; as it was, it is now {copy_aside(path)}" if path.exists() else ""
        execution.process.screen.say(f"{path}: {missing}; the run goes on from step {step}{copied}")
    truncate_metrics(path, step)


def newest_of(execution: Execution) -> Path | None:
    """The newest good checkpoint, as rank 0 sees it; those that are not good are told of. RunError if none is good."""

    def find() -> str:
        newest, warnings = newest_good(execution.checkpoints, execution.process.pulse.beat)
        if warnings and newest is None:
            raise RunError(f"{execution.checkpoints} has no good checkpoint ({warnings[0]}): {BEGIN_AGAIN}")
        for warning in warnings:
            execution.process.screen.say(warning)
        return "" if newest is None else str(newest)

    newest = execution.process.ranks.first(find)
    return Path(newest) if newest else None


def is_no_folder(path: Path) -> bool:
    return os.path.lexists(path) and not path.is_dir()


def set_aside_bad(execution: Execution, path: Path, is_bad: Callable[[Path], bool] = is_no_folder) -> None:
    """Move aside what cannot be used in a cache, to be made again."""
    if is_bad(path):
        execution.process.screen.say(f"{path} is damaged: made again; what was there is now {set_aside(path)}")


def lost_all(checkpoints: Path) -> bool:
    """Tell whether there are checkpoints, none of them good."""
    newest, warnings = newest_good(checkpoints)
    return newest is None and bool(warnings)


def find_finished(execution: Execution) -> Summary | None:
    """Return the summary of a run that has nothing left to do, and name what its folder lacks; None of another."""
    if not execution.process.ranks.first(lambda: read_finished(execution) is not None):
        return None
    for line in faults(execution) if execution.process.ranks.is_first else ():
        execution.process.screen.say(line)
    return read_finished(execution)


def faults(execution: Execution) -> Iterator[str]:
    """Yield a line for each thing that a finished run has lost."""
    newest, warnings = newest_good(execution.checkpoints)
    yield from warnings
    if newest is None:
        yield f"{execution.checkpoints} has no good checkpoint: the run can be neither evaluated nor made longer"
    missing = metrics_gap(execution.run.folder / METRICS, execution.run.steps)
    if missing:
        yield f"{execution.run.folder / METRICS}: {missing}"
