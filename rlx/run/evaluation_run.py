"""A run that evaluates and trains nothing: `rlx eval` of a run's newest checkpoint, or of a model as it stands."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from rlx.base.console import Screen
from rlx.base.regular import inside
from rlx.evaluation.evaluate import EvaluateError
from rlx.learner.checkpoint import newest_good, weights_of
from rlx.run.closing import show_results
from rlx.run.ending import end, read_finished, record_end
from rlx.run.execution import Execution, fetch_first, open_run
from rlx.run.fleet import open_fleet
from rlx.run.inputs import provenance_in
from rlx.run.judge import floor_beside, judge
from rlx.run.report import model_name, name_of
from rlx.run.run import Run
from rlx.run.trainee import build_policy
from rlx.run.warm import model_digest
from rlx.runs.folder import CHECKPOINTS, EVALUATIONS, FREE_KEYS, METRICS, STEP, digest_of
from rlx.runs.summary import Summary

NO_CHECKPOINT = "go on with it by its own rlx train command; rlx eval model.path=DIR evaluates a model as it is"


def evaluate_run(run: Run, screen: Screen | None = None) -> Summary:
    """Evaluate the newest good checkpoint of the run in `run.folder`, in a folder of its own below it."""
    newest_run, label, notes = at_newest(run)
    return evaluate_model(newest_run, screen, label=label, notes=notes)


def at_newest(run: Run) -> tuple[Run, str, list[str]]:
    """Return the evaluation of a run's newest good checkpoint as a run of its own, its label, and notes."""
    newest, notes = newest_of(run)
    model = replace(run.model, path=str(newest), lora=None)
    folder = inside(run.folder, EVALUATIONS, evaluation_name(run, newest))
    steps = int(newest.name.removeprefix(STEP))
    label = f"{name_of(run.config['algo'])}, {newest.name}"
    return replace(run, model=model, folder=folder, steps=steps), label, notes


def newest_of(run: Run) -> tuple[Path, list[str]]:
    """Return a run's newest good checkpoint, and notes on newer ones that are damaged."""
    newest, notes = newest_good(inside(run.folder, CHECKPOINTS))
    if newest is None:
        raise EvaluateError("; ".join([*notes, f"{run.folder} has no checkpoint to evaluate: {NO_CHECKPOINT}"]))
    return newest, notes


def evaluate_model(run: Run, screen: Screen | None = None, *, label: str = "", notes: Sequence[str] = ()) -> Summary:
    """Evaluate the run's model, which has learned for `run.steps`; on as many processes as were started. What was
    evaluated before is told again."""
    refuse_trained(run.folder)
    with open_run(run, screen, trains=False) as execution:
        run, execution.policy, execution.notes = execution.run, run.model.path, tuple(notes)
        execution.advance(step=run.steps)
        done = (
            read_finished(execution)
            if execution.process.ranks.first(lambda: read_finished(execution) is not None)
            else None
        )
        for line in (*notes, f"{'evaluated before' if done else 'evaluating'}: {execution.policy}"):
            execution.process.screen.say(line)
        fetch_first(execution)
        summary = done or play_model(execution)
        show_results(execution, summary, label or model_name(run), "eval")
        return summary


def play_model(execution: Execution) -> Summary:
    """The run's model on the held-out problems, and the floor beside it."""
    run = execution.run
    with record_end(execution), open_fleet(run, execution.process.ranks) as fleet:
        policy = build_policy(run, run.model, fleet)
        execution.process.engine = policy.engine
        figures = floor_beside(execution)
        weights = execution.process.ranks.first(lambda: model_digest(run.model))
        for evaluation in judge(execution, policy.rollout, "eval", weights):
            figures = {**figures, **evaluation.figures}
        return end(execution, "finished", figures)


def refuse_trained(folder: Path) -> None:
    """Refuse a folder that holds a training run: an evaluation would write over its files."""
    if any(os.path.lexists(folder / name) for name in (METRICS, CHECKPOINTS)):
        raise EvaluateError(
            f"{folder} is a run's own folder: rlx eval run={folder} evaluates its checkpoint beside its results; for "
            "another model choose another hydra.run.dir"
        )


def evaluation_name(run: Run, checkpoint: Path) -> str:
    """Return a name for a checkpoint and settings."""
    config = {key: value for key, value in run.config.items() if key not in FREE_KEYS}
    config["provenance"] = provenance_in(config, run.env).digest
    return f"{checkpoint.name}-{digest_of({'config': config, 'weights': weights_of(checkpoint)})[:8]}"
