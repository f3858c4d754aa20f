"""Bookkeeping of a run: cost, checkpoints, metrics and warnings."""

from __future__ import annotations

import shlex
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from safetensors.torch import save

from rlx.base.console import Screen, format_count
from rlx.base.regular import inside, make_parent, write_aside
from rlx.hardware.interrupt import InterruptedRunError, listen
from rlx.hardware.pulse import watch
from rlx.hardware.ranks import Ranks, join
from rlx.learner.checkpoint import write_checkpoint
from rlx.learner.learner import NotFiniteError
from rlx.run.alarm import Alarms
from rlx.run.inputs import fetch_inputs, provenance_in
from rlx.run.process import Process
from rlx.run.progress import RUN_FILE, Progress, ProgressError, read_progress, write_progress
from rlx.run.run import Run
from rlx.run.trainee import Trainee
from rlx.runs.cache import refusal
from rlx.runs.codec import Notes
from rlx.runs.command import EVAL, TRAIN, command_record
from rlx.runs.dashboard import Dashboard
from rlx.runs.folder import CHECKPOINTS, COMMAND, FAILED, LOG, METRICS, open_folder
from rlx.runs.provenance import Provenance
from rlx.runs.store import save as save_groups
from rlx.runs.store import step_path
from rlx.runs.summary import Cost
from rlx.runs.track import append_metrics
from rlx.tool.python import end_sandboxes
from rlx.types import Group, Metrics

AllNotes = Sequence[Sequence[Sequence[Notes]]]
"""Notes of every turn of every trajectory of every group, in their order; or nothing."""


class RunError(RuntimeError):
    """The run cannot go on; the message is one line with the reason and what to do."""


def none_ahead(step: int) -> Mapping[int, list[Group]]:
    """Return no rollouts, as nothing is played beside the update."""
    return {}


@dataclass(slots=True, kw_only=True)
class Execution:
    """A run under way, with its settings, process, progress and reports."""

    run: Run
    process: Process
    progress: Progress = field(default_factory=Progress)
    dashboards: tuple[Dashboard, ...] = ()
    since: float = 0.0
    """Time of the last update of the cost, by the monotonic clock."""
    checkpointed_at: float = 0.0
    """Time of the last checkpoint, by the monotonic clock."""
    saving: float | None = None
    """Seconds of the last step's checkpoint; None if the step made none."""
    policy: str = ""
    """Name of the policy of the figures: a checkpoint, or a model's path."""
    notes: tuple[str, ...] = ()
    """Notes for a reader of the figures."""
    provenance: Provenance | None = None
    """Record that `record` returns; None before it is first asked for, as a hub's data may not be here yet."""
    within: Execution | None = None
    """The run that this stage is a warm start of; None for a run itself."""
    alarms: Alarms = field(default_factory=Alarms)
    """Alarms that follow from the metrics up to now."""
    ahead: Callable[[int], Mapping[int, list[Group]]] = none_ahead
    """Function that waits for rollouts played beside the update, from this step on."""

    def __post_init__(self) -> None:
        self.since = self.checkpointed_at = time.monotonic()

    def record(self) -> Provenance:
        """Return the code, packages and data of the run, as they are at the first call."""
        if self.provenance is None:
            self.provenance = provenance_in(self.run.config, self.run.env)
        return self.provenance

    @property
    def checkpoints(self) -> Path:
        return inside(self.run.folder, CHECKPOINTS)

    def warn(self, text: str) -> None:
        """Print a warning and store it for summary.json."""
        self.process.screen.say(f"warning: {text}")
        self.advance(warnings=tuple(dict.fromkeys((*self.progress.warnings, text))))

    def advance(self, **changes: Any) -> None:
        """Set fields of the progress."""
        self.progress = replace(self.progress, **changes)

    def spend(self, groups: Sequence[Group] = ()) -> None:
        """Add what these episodes took, and the time gone by."""
        now = time.monotonic()
        seconds, self.since = now - self.since, now
        episodes = [trajectory for group in groups for trajectory in group.trajectories]
        spent = Cost(
            tokens=sum(episode.num_sampled for episode in episodes),
            tool_calls=sum(turn.tool.num_calls for episode in episodes for turn in episode.new_turns),
            seconds=seconds,
            device_hours=seconds * self.run.hardware.num_devices / 3600,
        )
        self.advance(cost=self.progress.cost + spent)


@contextmanager
def open_run(run: Run, screen: Screen | None = None, *, trains: bool = True) -> Iterator[Execution]:
    """Open a run: its processes join, its folder is claimed, signals are caught and the heartbeat is watched.

    A run that only evaluates (not `trains`) takes as many processes as there are.
    """
    with listen() as interrupt, join(run.hardware, exact=trains) as ranks:
        screen = (screen or Screen()) if ranks.is_first else Screen(silent=True)
        run = replace(run, folder=Path(ranks.broadcast(str(run.folder.absolute()))))
        minutes = run.hardware.step_minutes
        with (
            claim(ranks, run.folder, run.config),
            record_words(ranks, run, trains=trains),
            screen.logged(run.folder / LOG),
            watch(run.folder, ranks, minutes) as pulse,
        ):
            process = Process(screen=screen, interrupt=interrupt, ranks=ranks, pulse=pulse)
            try:
                yield Execution(run=run, process=process)
            finally:
                if process.engine is not None:
                    process.engine.close()
                end_sandboxes()


@contextmanager
def claim(
    ranks: Ranks,
    folder: Path,
    config: Mapping[str, Any],
    *,
    mend: Callable[[str], None] | None = None,
    waiting: Callable[[str], None] | None = None,
) -> Iterator[None]:
    """A run's folder, held by rank 0 for all. With `mend`, one of a cache: waited for, and made again if damaged."""
    with ExitStack() as stack:

        def enter() -> None:
            stack.enter_context(open_folder(folder, config, wait=mend is not None, waiting=waiting, mend=mend))

        ranks.first(enter)
        yield


@contextmanager
def record_words(ranks: Ranks, run: Run, *, trains: bool) -> Iterator[None]:
    """Store a run's command in its folder, for `rlx resume` and reports; a training run that is cut off names
    `rlx resume`."""
    if run.words:
        record = command_record(TRAIN if trains else EVAL, run.words)
        ranks.first(lambda: write_aside(run.folder / COMMAND, record))
    try:
        yield
    except InterruptedRunError as error:
        if trains and run.words and ranks.size == 1:
            advice = f"; `rlx resume {shlex.quote(str(run.folder))}` goes on with it"
            raise InterruptedRunError(error.signum, advice) from None
        raise


def fetch_first(execution: Execution) -> None:
    """Fetch the run's inputs from a hub on rank 0, where a signal ends it at once; other ranks read the cache."""
    wrong = refusal() if execution.process.ranks.is_first else ""
    if wrong:
        execution.process.screen.say(f"{wrong}: this run goes on without the cache; RLX_CACHE names another folder")
    execution.process.ranks.first(lambda: fetch_inputs(execution.run, execution.process.interrupt.check))
    if not execution.process.ranks.is_first:
        fetch_inputs(execution.run, execution.process.interrupt.check)


def save_checkpoint(execution: Execution, trainee: Trainee, step: int) -> None:
    """Write a checkpoint after `step` steps: on rank 0 the folder, on others their part of the weights."""
    execution.process.pulse.at(f"checkpoint of step {step}")
    began = time.monotonic()
    beat = execution.process.pulse.beat
    execution.spend()
    played = execution.ahead(step)

    def write(folder: Path) -> None:
        trainee.save(folder, beat)
        for ahead, groups in played.items():
            save_groups(step_path(folder, ahead + 1), groups, max_rounds=execution.run.env.max_rounds)
        record = execution.record()
        write_progress(folder, replace(execution.progress, step=step, ahead=tuple(played), provenance=record))

    if execution.process.ranks.is_first:
        write_checkpoint(execution.checkpoints, step, write, keep=execution.run.checkpoint.keep, progress=beat)
    else:
        trainee.save(None, beat)
    execution.checkpointed_at = time.monotonic()
    execution.saving = execution.checkpointed_at - began
    if execution.within is not None:
        store_beginning(execution.within)


def store_beginning(execution: Execution) -> None:
    """Store the cost and the warnings of a run in its folder, until its first checkpoint holds them."""
    execution.spend()
    if execution.process.ranks.is_first:
        write_progress(execution.run.folder, replace(execution.progress, provenance=execution.record()))


def read_beginning(execution: Execution) -> Progress:
    """Return the cost and the warnings of a run that was killed before its first checkpoint; nothing of another run."""

    def read() -> dict[str, Any]:
        folder = execution.run.folder
        if execution.checkpoints.exists() or not (folder / RUN_FILE).exists():
            return {}
        try:
            stored = read_progress(folder)
        except ProgressError as error:
            execution.process.screen.say(f"{error}: cost and warnings of the time before are not known")
            return {}
        return {"cost": asdict(stored.cost), "warnings": stored.warnings}

    stored = execution.process.ranks.broadcast(read() if execution.process.ranks.is_first else None)
    if not stored:
        return execution.progress
    return replace(execution.progress, cost=Cost(**stored["cost"]), warnings=tuple(stored["warnings"]))


def keeps_trajectories(run: Run, step: int) -> bool:
    """Return True if the trajectories of step number `step` (from 1) are stored: step 1's are looked at first."""
    interval = run.checkpoint.trajectories_interval
    return bool(interval) and (step == 1 or step % interval == 0)


def record_step(
    execution: Execution, trainee: Trainee, step: int, metrics: Metrics, groups: Sequence[Group], notes: AllNotes
) -> None:
    """Append the metrics of step `step` (from 1), store its trajectories, warn, and write a checkpoint if due."""
    run = execution.run
    execution.advance(step=step)
    execution.spend(groups)
    metrics = metrics if execution.saving is None else {**metrics, "time/checkpoint": execution.saving}
    execution.saving = None
    execution.process.store_times(run.folder, step, is_kept=keeps_trajectories(run, step))
    if execution.process.ranks.is_first:
        append_metrics(run.folder / METRICS, step, metrics)
        execution.alarms = execution.alarms.add(line := {**metrics, "step": step}, run)
        for text in execution.alarms.due(line, run):
            execution.process.screen.say(f"warning: {text}")
        for dashboard in execution.dashboards:
            dashboard.log(step, metrics)
        if keeps_trajectories(run, step):
            save_groups(step_path(run.folder, step), groups, max_rounds=run.env.max_rounds, notes=notes)
    if step == run.steps or step % run.checkpoint.interval == 0 or is_overdue(execution):
        save_checkpoint(execution, trainee, step)


def is_overdue(execution: Execution) -> bool:
    """Tell whether the last checkpoint is too old, by rank 0's clock."""
    minutes = execution.run.checkpoint.minutes
    return minutes is not None and bool(
        execution.process.ranks.broadcast(time.monotonic() - execution.checkpointed_at > 60 * minutes)
    )


def keep_evidence(execution: Execution, step: int, error: NotFiniteError) -> RunError:
    """Save the micro-batch whose loss or gradient was not finite; return the error to stop with."""
    path = inside(execution.run.folder, FAILED) / f"step-{step + 1:06d}.safetensors"
    if execution.process.ranks.is_first:
        make_parent(path)
        write_aside(path, save(error.micro_batch))
    is_credit = not error.micro_batch["advantage"].isfinite().all()
    remedy = "algo.credit gave advantages that are not finite" if is_credit else "try a lower algo.optimizer.lr"
    return RunError(f"step {step + 1}: {error}; {path} has the micro-batch; {remedy}")


def refuse_errors(groups: Sequence[Group], max_share: float) -> None:
    """Stop when too many episodes ended in an error, or all; a few are counted and left out of the update."""
    errors, total = errors_of(groups), sum(len(group.trajectories) for group in groups)
    is_many = len(errors) > max_share * total
    if is_many or (errors and len(errors) == total):
        why = f"more than max_error_share={max_share}" if is_many else "which leaves nothing to learn from"
        raise RunError(
            f"{len(errors)} of {format_count(total, 'episode')} ended in an error, {why}; the first: {errors[0]}"
        )


def errors_of(groups: Sequence[Group]) -> list[str]:
    return [episode.error for group in groups for episode in group.trajectories if episode.status == "error"]
