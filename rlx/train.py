"""A run from start to end: warm start, learn, evaluate, and say what it cost. The whole program at a glance.

On several processes every rank runs this program: each plays its share of the episodes, all see all of them and make
the same batch, the learner shares out its work, and rank 0 alone writes and speaks.
"""

from __future__ import annotations

import time
from dataclasses import replace
from functools import partial
from itertools import islice
from pathlib import Path

from rlx.agent import Agent, build_agent, nothing
from rlx.console import Screen
from rlx.evaluate.evaluate import held_out
from rlx.evaluate.summary import Cost, Summary, read_summary
from rlx.interrupt import InterruptedRunError
from rlx.judge import judge_on_the_way, judge_run, tell_run
from rlx.learner.batch import collate, rows
from rlx.learner.learner import NotFiniteError
from rlx.life import Life, claim, end, keep, keep_evidence, living, newest_of, record, refuse_errors, resume, told
from rlx.rollout.measure import measure, peak_memory
from rlx.rollout.together import together
from rlx.run import Run
from rlx.track import open_board
from rlx.types import Group, Metrics, Task
from rlx.warm import warm_model


def train(run: Run, screen: Screen | None = None) -> Summary:
    """Learn and evaluate; what a run leaves is in its folder. What stops it is in summary.json too, and is raised."""
    with living(run, screen) as life:
        run, screen = life.run, life.screen
        screen.say(f"run folder: {run.folder}")
        done = finished(life)
        if done is not None:
            tell_run(life, dict(done.metrics))
            return done
        held_out(run.evaluate, run.env)
        life.board = open_board(run.track, run.folder, run.config, notice=screen.say, rank=life.ranks.rank)
        with told(life):
            start = warm_model(run, partial(warm_up, life))
            agent = build_agent(run, start, life.ranks)
            learn(life, agent)
            figures = judge_run(life, agent, start)
            summary = end(life, "finished", figures)
        tell_run(life, figures)
        return summary


def finished(life: Life) -> Summary | None:
    """What is left to say of a run that has nothing left to do."""
    run, newest = life.run, newest_of(life)
    path = run.folder / "summary.json"
    if newest is None or newest.name != f"step-{run.steps}" or not life.ranks.first(path.exists):
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
                life.check()
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
    life.pulse.at(f"rollout of step {step + 1}")
    act = agent.policy.rollout(
        run.env, run.sampling, stream, prepare=prepare, check=life.interrupt.check, progress=life.told
    )
    groups = algo.sample(together(act, life.ranks), tasks)
    refuse_errors(groups, run.max_error_share)
    sampled = time.monotonic()
    life.pulse.at(f"update of step {step + 1}")
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


def warm_up(life: Life, stage: Run) -> Path:
    """Run a warm start, or find it done, or go on with it; the folder of its last checkpoint."""
    life.pulse.at("warm start, perhaps another run's", resting=True)
    with claim(life.ranks, stage, wait=True):
        own = replace(life, run=stage, board=None, cost=Cost())
        newest = newest_of(own)
        if newest is None or newest.name != f"step-{stage.steps}":
            own.screen.say(f"warm start of {stage.steps} steps, kept in {stage.folder}")
            learn(own, build_agent(stage, stage.model, life.ranks), label="warm start")
            newest = newest_of(own)
    assert newest is not None
    return newest
