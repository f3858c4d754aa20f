"""A run from start to end: warm start, learn, evaluate, and say what it cost. The whole program at a glance.

On several processes every rank runs this program. Each rank plays its share of the episodes, and all ranks gather the
same batch. The learner divides its work, and rank 0 alone writes files and prints.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path

from rlx.algo.parts import recall
from rlx.base.console import Screen, format_count
from rlx.evaluation.evaluate import held_out
from rlx.hardware.interrupt import InterruptedRunError
from rlx.hardware.pulse import nothing
from rlx.model.load import Model
from rlx.rollout.distributed import distribute
from rlx.rollout.waves import sample_turns
from rlx.run import curriculum
from rlx.run.alarm import alarms_after, drift_warning
from rlx.run.closing import show_results
from rlx.run.ending import end, record_end
from rlx.run.execution import (
    Execution,
    claim,
    fetch_first,
    none_ahead,
    open_run,
    read_beginning,
    record_step,
    save_checkpoint,
    store_beginning,
)
from rlx.run.fleet import open_fleet
from rlx.run.inputs import provenance_in
from rlx.run.judge import judge_on_the_way, judge_run
from rlx.run.pipeline import Pipeline, Play
from rlx.run.progress import Progress
from rlx.run.rehearsal import rehearse
from rlx.run.resume import find_finished, lost_all, newest_of, resume, set_aside_bad
from rlx.run.run import Run
from rlx.run.step import CreditedBatch, StepTimer, give_credit, record, update
from rlx.run.trainee import Trainee, build_trainee
from rlx.run.warm import place_stage, stage_config, warm_config, warm_model
from rlx.run.warm_result import (
    WarmResult,
    advice,
    goes_on,
    last_step,
    rounds_of_warm,
    stored_result,
    try_out,
    waiting_for,
)
from rlx.runs.cache import in_words, time_of
from rlx.runs.folder import METRICS
from rlx.runs.summary import Summary, code_state
from rlx.runs.track import read_metrics
from rlx.runs.trackers import open_dashboards
from rlx.types import Group, Metrics

NO_STEPS = "steps=0: nothing is trained after the warm start; what the run starts from is evaluated as it is"


def train(run: Run, screen: Screen | None = None) -> Summary:
    """Learn and evaluate; what a run leaves is in its folder. What stops it is in summary.json too, and is raised."""
    with open_run(run, screen) as execution:
        run, screen = execution.run, execution.process.screen
        screen.say(f"run folder: {run.folder}")
        if not run.steps:
            screen.say(NO_STEPS)
        done = find_finished(execution)
        if done is not None:
            execution.policy, execution.notes = done.policy, done.notes
            show_results(execution, done)
            return done
        fetch_first(execution)
        execution.progress = read_beginning(execution)
        held_out(run.evaluate, run.env)
        if run.steps and run.algo.drifts:
            execution.warn(drift_warning(run))
        with record_end(execution):
            rehearse(execution)
            store_beginning(execution)
        execution.dashboards = open_dashboards(
            run.track, run.folder, run.config, notice=screen.say, code=code_state, rank=execution.process.ranks.rank
        )
        with record_end(execution), open_fleet(run, execution.process.ranks) as execution.process.fleet:
            start = warm_model(run, partial(warm_up, execution))
            with stage_of(execution, run, start) as trainee:
                learn(execution, trainee)
                figures = judge_run(execution, trainee)
            summary = end(execution, "finished", figures)
        show_results(execution, summary)
        return summary


@contextmanager
def stage_of(execution: Execution, run: Run, model: Model) -> Iterator[Trainee]:
    """Build the trainee from `model`. The learner ends with the stage; the engine is passed on to the next stage."""
    trainee = build_trainee(run, model, execution.process.ranks, execution.process.fleet, execution.process.engine)
    execution.process.engine = trainee.policy.trained_engine
    try:
        yield trainee
    finally:
        trainee.learner.close()
        trainee.policy.close_others()


def learn(execution: Execution, trainee: Trainee, label: str = "train") -> None:
    """Every step from where the run was left to its last."""
    run = execution.run
    played = resume(execution, trainee)
    first = execution.progress.step
    execution.alarms = alarms_after(read_metrics(run.folder / METRICS), run)[0]
    with (
        open_pipeline(execution, trainee, first, played) as rollouts,
        execution.process.screen.bar(label, run.steps, "steps", done=first) as advance,
    ):
        for step in range(first, run.steps):
            try:
                execution.process.check()
                metrics, credited = take_step(execution, trainee, step, rollouts)
            except InterruptedRunError:
                save_checkpoint(execution, trainee, step)
                raise
            metrics_of_all = metrics | judge_on_the_way(execution, trainee, step + 1)
            record_step(execution, trainee, step + 1, metrics_of_all, credited.groups, credited.notes)
            advance(1, note=progress_note(run, metrics))


def progress_note(run: Run, metrics: Metrics) -> str:
    """Return what to show of a step: rewards of the policy, or the loss where an expert's episodes are copied."""
    if run.algo.imitates:
        return f"loss {metrics.get('loss/value', math.nan):.3f}"
    invalid = f", invalid turns {metrics['turn/invalid']:.0%}" if metrics["turn/invalid"] else ""
    return f"reward {metrics['reward/mean']:.3f}, success {metrics['success/mean']:.2f}{invalid}"


@contextmanager
def open_pipeline(
    execution: Execution, trainee: Trainee, first: int, played: Mapping[int, list[Group]]
) -> Iterator[Pipeline[list[Group]]]:
    """Open the pipeline of rollouts; `played` holds those that the checkpoint has already."""
    run = execution.run
    staleness = run.hardware.staleness
    tasks = curriculum.open_tasks(run, first, played, lambda: execution.progress.counts)
    ranks = execution.process.ranks.with_new_group() if staleness else execution.process.ranks

    def launch(step: int) -> Play[list[Group]]:
        check = rollouts.check if staleness else execution.process.interrupt.check
        act = trainee.policy.rollout(
            run.env,
            run.sampling,
            ("train", run.seed, step),
            prepare=prepare(run, trainee),
            keep=run.algo.frozen_policy,
            check=check,
            progress=execution.process.note_end,
            timed=partial(execution.process.note_times, step + 1),
        )
        player = distribute(act, ranks, run.hardware.players(ranks.size))
        algo = recall(run.algo, execution.progress.memory)
        return partial(sample_turns, player, algo.sample, tasks(step), algo.num_turns)

    rollouts = Pipeline(launch, staleness=staleness, last=run.steps, restored=played)
    execution.ahead = rollouts.wait
    try:
        yield rollouts
    finally:
        rollouts.close()
        execution.ahead = none_ahead


def prepare(run: Run, trainee: Trainee) -> Callable[[], None]:
    """Return the function that brings the engine's weights up to date."""
    if run.algo.frozen_policy:
        return nothing
    return trainee.sync_later() if run.hardware.staleness else trainee.sync


def take_step(
    execution: Execution, trainee: Trainee, step: int, rollouts: Pipeline[list[Group]]
) -> tuple[Metrics, CreditedBatch]:
    """One update: sample, credit, learn. `step` counts from 0."""
    timer = StepTimer(execution=execution, step=step + 1)
    with timer.phase("rollout"):
        groups = rollouts.take(step)
    with timer.phase("update"):
        credited = give_credit(execution, trainee, groups, step + 1)
        stats = update(execution, trainee, credited, step + 1)
    return record(execution, credited, stats, timer), credited


def warm_up(execution: Execution, stage: Run) -> Path:
    """Run or resume a warm start and those before it, unless done; return the folder of its last checkpoint."""
    execution.process.pulse.at("warm start, perhaps another run's", resting=True)
    stage = place_stage(execution, stage)
    execution.process.ranks.first(lambda: set_aside_bad(execution, stage.folder))
    with claim(
        execution.process.ranks,
        stage.folder,
        warm_config(stage),
        mend=execution.process.screen.say,
        waiting=waiting_for(execution.process, stage.folder),
    ):
        stage_execution = replace(
            execution,
            run=stage,
            progress=Progress(),
            provenance=provenance_in(stage_config(stage), stage.env),
            dashboards=(),
            within=execution.within or execution,
        )
        execution.process.ranks.first(
            lambda: set_aside_bad(stage_execution, stage_execution.checkpoints, is_bad=lost_all)
        )
        result = warm_rounds(execution, stage_execution, stage)
        newest = newest_of(stage_execution)
    if stage.config == getattr(execution.run.before(), "config", None) and not result.speaks:
        execution.warn(advice(result))
    assert newest is not None
    return newest


def warm_rounds(execution: Execution, stage_execution: Execution, stage: Run) -> WarmResult:
    """Learn for the stage's steps, doubled while its policy does not speak or earns nothing; return the last result."""
    before: WarmResult | None = None
    start: Model | None = None
    screen = execution.process.screen
    for part in rounds_of_warm(stage):
        stage_execution.run, done = part, stage_execution.process.ranks.first(lambda: last_step(stage_execution))
        result = stored_result(stage_execution, part) if done >= part.steps else None
        if result is None and done > part.steps:
            continue  # it was extended before, and what was stored of it is lost
        if result is None:
            start = start or warm_model(stage, partial(warm_up, execution))
            why = "" if before is None else f"the policy does not {before.lack} yet, and its loss still falls: "
            screen.say(f"{why}warm start of {format_count(part.steps, 'step')}, kept in {part.folder}")
            with stage_of(execution, part, start) as trainee:
                learn(stage_execution, trainee, label="warm start")
                result = try_out(stage_execution, part, trainee)
            screen.say(f"warm start: {result}")
        else:
            age = stage_execution.process.ranks.first(lambda: in_words(time_of(stage_execution.checkpoints)))
            where = f"found in {part.folder}, made {age}"
            screen.say(f"warm start of {format_count(part.steps, 'step')}, {where}: {result}")
        if not goes_on(before, result):
            return result
        before = result
    assert before is not None
    return before
