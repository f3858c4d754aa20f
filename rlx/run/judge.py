"""Evaluate a run's policies on held-out tasks, on the way and at its end."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from socket import gethostname

from rlx.base.console import format_count
from rlx.base.regular import inside
from rlx.evaluation.evaluate import Evaluate, Evaluation, evaluate
from rlx.evaluation.figures import gains, values
from rlx.evaluation.floor import FloorError, floor
from rlx.model.load import Model
from rlx.run.evaluation_player import PLAYED, Act, EvaluationPlayer
from rlx.run.execution import Execution, errors_of
from rlx.run.inputs import provenance_in
from rlx.run.policies import keep_chosen
from rlx.run.run import Run
from rlx.run.stored_evaluation import evaluation_key
from rlx.run.trainee import Trainee
from rlx.run.warm import model_digest
from rlx.runs.cache import EVALUATED, cache_folder
from rlx.runs.codec import FORMAT
from rlx.runs.folder import CHECKPOINTS, RANKS, STEP, digest_of
from rlx.runs.lock import hold
from rlx.runs.summary import Estimate
from rlx.types import Group, Metrics

Figures = dict[str, Estimate]
JUDGED_BY = ("env", "protocol", "sampling", "evaluate", "hardware")
"""Settings that the evaluation of a given model depends on."""


def judge_run(execution: Execution, trainee: Trainee) -> Figures:
    """Return the figures of all evaluations: `eval/…` (trained policy), `start/…`, `untrained/…` (no warm start) and
    `random/…` (floor). `gain/…` and `gain_untrained/…` are paired differences. A run without steps plays its start
    once: the second time it is found in the cache."""
    if execution.run.steps:
        act = partial(trainee.policy.rollout, prepare=trainee.sync, keep=False)
        ours = judge(execution, act, "eval", trainee.learner.num_updates)
    else:
        ours = judge_fixed(execution, trainee, "eval", trainee.start)
    bare = judge_fixed(execution, trainee, "untrained", execution.run.model) if judges_untrained(execution.run) else []
    start = judge_fixed(execution, trainee, "start", trainee.start)
    execution.policy = f"{CHECKPOINTS}/{STEP}{execution.run.steps}" if execution.run.steps else "the start"
    figures = floor_beside(execution)
    for evaluations in (bare, start, ours):
        figures |= {name: figure for evaluation in evaluations for name, figure in evaluation.figures.items()}
    return (
        figures
        | all_paired(execution.run.evaluate, ours, start, "gain")
        | all_paired(execution.run.evaluate, ours, bare, "gain_untrained")
    )


def judges_untrained(run: Run) -> bool:
    """Tell whether the untrained model is evaluated too; without a warm start it is the start itself."""
    return run.evaluate.untrained and run.before() is not None


def floor_beside(execution: Execution) -> Figures:
    """Return the floor. If random play fails, it is empty and a note says why: nothing that was trained is lost."""

    def tell() -> None:
        execution.process.interrupt.check()
        execution.process.pulse.beat()

    execution.process.pulse.at("random play")
    try:
        return floor(execution.run.evaluate, execution.run.env, tell=tell, agents=execution.run.measured_agents)
    except FloorError as error:
        execution.process.screen.say(f"no random floor: {error}")
        return {}


def judge_on_the_way(execution: Execution, trainee: Trainee, step: int) -> Metrics:
    """Evaluate the policy after `step` steps if evaluate.interval asks for an evaluation; return its figures."""
    interval = execution.run.evaluate.interval
    if not interval or step % interval or step == execution.run.steps:
        return {}
    execution.ahead(step)
    act = partial(trainee.policy.rollout, prepare=trainee.sync, keep=False)
    evaluations = judge(execution, act, "eval", trainee.learner.num_updates)
    if execution.run.algo.frozen_policy:
        trainee.restore()
    return {name: value for evaluation in evaluations for name, value in values(evaluation.figures).items()}


def judge_fixed(execution: Execution, trainee: Trainee, noun: str, model: Model) -> list[Evaluation]:
    """Evaluate a model that the run does not change, or read what another run left of its evaluation."""

    run = execution.run

    def prepare() -> None:
        with in_turn(execution):
            trainee.begin(model)

    config = {key: run.config[key] for key in JUDGED_BY}
    config |= {"provenance": provenance_in(config, run.env).digest, **keep_chosen(run.config)}
    digest = digest_of({"config": config, "model": model_digest(model), "format": FORMAT})
    act = partial(trainee.policy.rollout, prepare=prepare, keep=False)
    return judge(execution, act, noun, digest, cache=None if run.is_served else cache_folder() / EVALUATED / digest)


@contextmanager
def in_turn(execution: Execution) -> Iterator[None]:
    """Let one process of a machine work at a time, so that its memory holds a whole model once."""
    if execution.process.ranks.size == 1:
        yield
        return
    with hold(inside(execution.run.folder, RANKS) / f".load-{gethostname()}", wait=True):
        yield


def all_paired(settings: Evaluate, ours: Sequence[Evaluation], theirs: Sequence[Evaluation], noun: str) -> Figures:
    """Return the gain of one policy over another, task by task, under every limit of turns; none over none."""
    figures: Figures = {}
    for mine, other in zip(ours, theirs, strict=False):
        gain_noun = noun if mine is ours[0] else f"{noun}@{mine.max_rounds}"
        resampling = {"num_resamples": settings.num_resamples, "seed": settings.seed}
        figures |= gains(mine.scores, other.scores, ks=settings.ks, noun=gain_noun, **resampling)
    return figures


def judge(
    execution: Execution, act: Act, noun: str, policy: str | int, *, cache: Path | None = None
) -> list[Evaluation]:
    """Play the held-out tasks and evaluate under every budget; the episodes are stored for replay. Episodes that this
    run stored before an interrupt, or another run in `cache`, are not played again."""
    run = execution.run
    player = EvaluationPlayer(execution=execution, act=act, noun=noun, key=evaluation_key(run, policy), cache=cache)
    longest, agents = run.sampling.max_context, run.measured_agents
    evaluations = evaluate(run.evaluate, run.env, player.play, max_context=longest, noun=noun, agents=agents)
    say_errors(execution, noun, evaluations[0].groups)
    for evaluation in evaluations if execution.process.ranks.is_first else ():
        player.store(evaluation.groups, evaluation.max_rounds)
    return evaluations


def say_errors(execution: Execution, noun: str, groups: Sequence[Group]) -> None:
    """Say how many episodes of an evaluation ended in an error, and the first of these."""
    errors = errors_of(groups)
    if errors:
        count, first = format_count(len(errors), "episode"), " ".join(errors[0].split())[:300]
        execution.process.screen.say(f"{count} of {PLAYED[noun]} ended in an error; the first: {first}")
