"""A run from start to end: warm start, learn, evaluate, and say what it cost. The whole program at a glance."""

from __future__ import annotations

import time
from functools import partial
from itertools import islice
from pathlib import Path

from rlx.agent import Agent, build_agent, nothing
from rlx.console import Screen
from rlx.evaluate.evaluate import held_out
from rlx.evaluate.summary import Summary, read_summary
from rlx.folder import open_folder
from rlx.interrupt import Interrupt, InterruptedRunError, listen
from rlx.judge import judge_on_the_way, judge_run, tell_run
from rlx.learner.batch import collate, rows
from rlx.learner.checkpoint import newest_good
from rlx.learner.learner import NotFiniteError
from rlx.life import CHECKPOINTS, Life, end, keep, keep_evidence, record, refuse_errors, resume, told
from rlx.rollout.measure import measure, peak_memory
from rlx.run import Run
from rlx.track import open_board
from rlx.types import Group, Metrics, Task
from rlx.warm import warm_model


def train(run: Run, screen: Screen | None = None) -> Summary:
    """Learn and evaluate; what a run leaves is in its folder. What stops it is in summary.json too, and is raised."""
    screen = screen or Screen()
    with listen() as interrupt, open_folder(run.folder, run.config):
        screen.say(f"run folder: {run.folder}")
        done = finished(run)
        if done is not None:
            tell_run(run, dict(done.metrics), screen)
            return done
        held_out(run.evaluate, run.env)
        board = open_board(run.track, run.folder, run.config, notice=screen.say)
        life = Life(run=run, screen=screen, interrupt=interrupt, board=board)
        with told(life):
            start = warm_model(run, partial(warm_up, screen=screen, interrupt=interrupt))
            agent = build_agent(run, start)
            learn(life, agent)
            figures = judge_run(life, agent, start)
            summary = end(life, "finished", figures)
        tell_run(run, figures, screen)
        return summary


def finished(run: Run) -> Summary | None:
    """What is left to say of a run that has nothing left to do."""
    path = run.folder / "summary.json"
    newest, _ = newest_good(run.folder / CHECKPOINTS)
    if not path.exists() or newest is None or newest.name != f"step-{run.steps}":
        return None
    summary = read_summary(path)
    return summary if summary.status == "finished" else None


def learn(life: Life, agent: Agent, label: str = "train") -> None:
    """Every step from where the run was left to its last."""
    run = life.run
    first = resume(life, agent)
    tasks = islice(run.env.tasks("train", run.seed), first * run.algo.num_prompts, None)
    with life.screen.bar(label, run.steps, "steps", done=first) as advance:
        for step in range(first, run.steps):
            try:
                life.interrupt.check()
                metrics, groups = take_step(life, agent, step, list(islice(tasks, run.algo.num_prompts)))
            except InterruptedRunError:
                keep(life, agent, step)
                raise
            record(life, agent, step + 1, metrics | judge_on_the_way(life, agent, step + 1), groups)
            advance(1, note=f"reward {metrics['reward/mean']:.3f}, success {metrics['success/mean']:.2f}")


def take_step(life: Life, agent: Agent, step: int, tasks: list[Task]) -> tuple[Metrics, list[Group]]:
    """One update: sample, credit, learn."""
    run, algo, began = life.run, life.run.algo, time.monotonic()
    stream = ("train", run.seed, step)
    prepare = nothing if algo.frozen_policy else agent.sync
    act = agent.policy.rollout(run.env, run.sampling, stream, prepare=prepare, check=life.interrupt.check)
    groups = algo.sample(act, tasks)
    refuse_errors(groups, run.max_error_share)
    sampled = time.monotonic()
    batch = agent.learner.annotate(collate(groups), algo.needs)
    batch = batch.with_advantages(algo.credit(rows(groups, batch)))
    try:
        stats = agent.learner.update(batch, algo.loss, algo.unit)
    except NotFiniteError as error:
        raise keep_evidence(life, step, error) from error
    updated = time.monotonic()
    clock = {
        "time/rollout": sampled - began,
        "time/update": updated - sampled,
        "time/step": updated - began,
        "rate/tokens": batch.num_tokens / (updated - began),
        "memory/peak": peak_memory(),
    }
    return {**measure(groups), **stats, **clock}, groups


def warm_up(stage: Run, *, screen: Screen, interrupt: Interrupt) -> Path:
    """Run a warm start, or find it done, or go on with it; the folder of its last checkpoint."""
    life = Life(run=stage, screen=screen, interrupt=interrupt)
    with open_folder(stage.folder, stage.config, wait=True):
        newest, _ = newest_good(life.checkpoints)
        if newest is None or newest.name != f"step-{stage.steps}":
            screen.say(f"warm start of {stage.steps} steps, kept in {stage.folder}")
            learn(life, build_agent(stage, stage.model), label="warm start")
            newest, _ = newest_good(life.checkpoints)
    assert newest is not None
    return newest
