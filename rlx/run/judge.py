"""Evaluate policies on held-out tasks: on the way of a run, at its end, and for `rlx eval`."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from socket import gethostname

from rlx.algo.samplers import group_by_task
from rlx.console import Screen, format_count
from rlx.evaluate.compare import name_rounds
from rlx.evaluate.evaluate import Evaluate, EvaluateError, Evaluation, evaluate
from rlx.evaluate.figures import gains, values
from rlx.evaluate.floor import FloorError, floor
from rlx.evaluate.intervals import Estimate
from rlx.evaluate.summary import Summary
from rlx.evaluate.tables import to_rich
from rlx.learner.checkpoint import newest_good, weights_of
from rlx.model.load import Model
from rlx.record.cache import EVALUATED, cache_folder, in_words, time_of
from rlx.record.codec import FORMAT
from rlx.record.folder import (
    CHECKPOINTS,
    EVALUATIONS,
    FREE_KEYS,
    METRICS,
    RANKS,
    RESULTS,
    STEP,
    TRAJECTORIES,
    digest_of,
    write_aside,
)
from rlx.record.lock import hold
from rlx.record.sources import code_digest
from rlx.record.store import growing, save
from rlx.rollout.distributed import distribute
from rlx.rollout.play import Rollout
from rlx.run.fleet import open_fleet
from rlx.run.inputs import data_of
from rlx.run.life import Life, end, errors_of, fetch_first, open_run, read_finished, record_end
from rlx.run.policies import keep_chosen
from rlx.run.report import left_in, model_name, name_of, num_held_out, results_text, tables_of
from rlx.run.run import Run
from rlx.run.stored_evaluation import (
    evaluation_key,
    evaluation_path,
    is_begun,
    is_of,
    part_path,
    read_evaluation,
    read_parts,
    store_evaluation,
)
from rlx.run.trainee import Trainee, build_policy
from rlx.run.warm import model_digest
from rlx.types import Group, Metrics, Sampling, Start, Trajectory

Figures = dict[str, Estimate]

PLAYED = {"eval": "the policy", "start": "the start", "untrained": "the untrained model"}
"""Nouns of figures, as a person is told of them."""
NO_CHECKPOINT = "go on with it by its own rlx train command; rlx eval model.path=DIR evaluates a model as it is"


def judge_run(life: Life, trainee: Trainee) -> Figures:
    """Return the figures of all evaluations: `eval/…` (trained policy), `start/…`, `untrained/…` (no warm start) and
    `random/…` (floor). `gain/…` and `gain_untrained/…` are paired differences."""
    act = partial(trainee.policy.rollout, prepare=trainee.sync, keep=False)
    ours = judge(life, act, "eval", trainee.learner.num_updates)
    bare = judge_fixed(life, trainee, "untrained", life.run.model) if judges_untrained(life.run) else []
    start = judge_fixed(life, trainee, "start", trainee.start)
    life.policy = f"{CHECKPOINTS}/{STEP}{life.run.steps}"
    found = floor_beside(life)
    for evaluations in (bare, start, ours):
        found |= {name: figure for one in evaluations for name, figure in one.figures.items()}
    return (
        found
        | all_paired(life.run.evaluate, ours, start, "gain")
        | all_paired(life.run.evaluate, ours, bare, "gain_untrained")
    )


def judges_untrained(run: Run) -> bool:
    """Tell whether the untrained model is evaluated too; without a warm start it is the start itself."""
    return run.evaluate.untrained and run.before() is not None


def floor_beside(life: Life) -> Figures:
    """Return the floor. If random play fails, it is empty and a note says why: nothing that was trained is lost."""

    def tell() -> None:
        life.process.interrupt.check()
        life.process.pulse.beat()

    life.process.pulse.at("random play")
    try:
        return floor(life.run.evaluate, life.run.env, tell=tell, agents=life.run.measured_agents)
    except FloorError as error:
        life.process.screen.say(f"no random floor: {error}")
        return {}


def judge_on_the_way(life: Life, trainee: Trainee, step: int) -> Metrics:
    """`eval/…` of the policy as it is after `step` steps, where evaluate.every asks for it."""
    every = life.run.evaluate.every
    if not every or step % every or step == life.run.steps:
        return {}
    life.ahead(step)
    act = partial(trainee.policy.rollout, prepare=trainee.sync, keep=False)
    found = judge(life, act, "eval", trainee.learner.num_updates)
    if life.run.algo.frozen_policy:
        trainee.restore()
    return {name: value for evaluation in found for name, value in values(evaluation.figures).items()}


def judge_fixed(life: Life, trainee: Trainee, noun: str, model: Model) -> list[Evaluation]:
    """Evaluate a model that the run does not change, or read what another run left of its evaluation."""

    run = life.run

    def prepare() -> None:
        with in_turn(life):
            trainee.begin(model)

    config = {key: run.config[key] for key in ("env", "protocol", "sampling", "evaluate", "hardware")}
    config |= {"code": code_digest(config), **data_of(run.env), **keep_chosen(run.config)}
    digest = digest_of({"config": config, "model": model_digest(model), "format": FORMAT})
    act = partial(trainee.policy.rollout, prepare=prepare, keep=False)
    return judge(life, act, noun, digest, cache=None if run.is_served else cache_folder() / EVALUATED / digest)


@contextmanager
def in_turn(life: Life) -> Iterator[None]:
    """Let one process of a machine work at a time, so that its memory holds a whole model once."""
    if life.process.ranks.size == 1:
        yield
        return
    with hold(life.run.folder / RANKS / f".load-{gethostname()}", wait=True):
        yield


def all_paired(settings: Evaluate, ours: Sequence[Evaluation], theirs: Sequence[Evaluation], noun: str) -> Figures:
    """Return the gain of one policy over another, task by task, under every limit of turns; none over none."""
    found: Figures = {}
    for mine, other in zip(ours, theirs, strict=False):
        own = noun if mine is ours[0] else f"{noun}@{mine.max_rounds}"
        resampling = {"num_resamples": settings.num_resamples, "seed": settings.seed}
        found |= gains(mine.scores, other.scores, ks=settings.ks, noun=own, **resampling)
    return found


def judge(
    life: Life, act: Callable[..., Rollout], noun: str, policy: str | int, *, cache: Path | None = None
) -> list[Evaluation]:
    """Play the held-out tasks and say how it went under every budget; the episodes are stored for replay. What has been
    played of it is not played again: by another run, where `cache` has it, or by this one before it was cut off."""
    run, settings, key = life.run, life.run.evaluate, evaluation_key(life.run, policy)

    def play(max_rounds: int | None, sampling: Sampling, starts: Sequence[Start]) -> list[Trajectory]:
        path = evaluation_path(run, noun, max_rounds)
        others = None if cache is None else cache / f"{name_rounds(max_rounds)}.jsonl"
        found = read_evaluation(life.process, path, starts) if is_of(life.process, path, key) else None
        if found is None and others is not None and not is_begun(life.process, path, key):
            kept = read_evaluation(life.process, others, starts)
            if kept is not None:
                tell_cached(life, noun, others)
                return kept
        if found is None:
            rollout = act(run.env, sampling, ("evaluate", settings.seed), max_rounds=max_rounds)
            found = play_rest(life, rollout, noun, starts, max_rounds, path, key)
        groups = group_by_task([start.task for start in starts[:: settings.num_samples]], found, settings.num_samples)
        life.spend(groups)
        if life.process.ranks.is_first and others is not None:
            save_for_others(life, others, groups, max_rounds)
        return found

    agents, longest = run.measured_agents, run.sampling.max_context
    evaluations = evaluate(settings, run.env, play, max_context=longest, noun=noun, agents=agents)
    errors = errors_of(evaluations[0].groups)
    if errors:
        first = " ".join(errors[0].split())[:300]
        life.process.screen.say(
            f"{format_count(len(errors), 'episode')} of {PLAYED[noun]} ended in an error; the first: {first}"
        )
    for made in evaluations if life.process.ranks.is_first else ():
        store_evaluation(evaluation_path(run, noun, made.max_rounds), key, made.groups, made.max_rounds)
    return evaluations


def tell_cached(life: Life, noun: str, path: Path) -> None:
    """Say that an evaluation is another run's, on the screen and in the summary."""
    made = life.process.ranks.first(lambda: in_words(time_of(path)))
    note = f"evaluation of {PLAYED[noun]}: found in the cache, made {made}; cost.tokens does not count it"
    if note not in life.notes:
        life.process.screen.say(note)
        life.notes = (*life.notes, note)


def save_for_others(life: Life, path: Path, groups: Sequence[Group], max_rounds: int | None) -> None:
    """Keep an evaluation in the cache, as far as the cache can be written."""
    try:
        save(path, groups, max_rounds=max_rounds)
    except OSError as error:
        life.process.screen.say(f"the evaluation is not kept in the cache: {error}")


def play_rest(
    life: Life, rollout: Rollout, noun: str, starts: Sequence[Start], max_rounds: int | None, path: Path, key: str
) -> list[Trajectory]:
    """Play, on all ranks, the episodes that were not stored before an interrupt, and store each as it ends."""
    ranks = life.process.ranks
    life.process.pulse.at(f"evaluation of {PLAYED[noun]}")
    done = read_parts(life.process, path, key)
    rest = [start for start in starts if (start.task.key, start.sample) not in done]
    title = f"evaluate {PLAYED[noun]}"
    with (
        growing(part_path(path, key, ranks.rank), max_rounds=max_rounds) as add,
        life.process.screen.bar(title, len(starts), "episodes", done=len(starts) - len(rest)) as advance,
    ):

        def progress(ended: Trajectory) -> None:
            add(ended)
            life.process.note_end(ended)
            advance(ranks.size)

        player = distribute(
            replace(rollout, check=life.process.interrupt.check, progress=progress),
            ranks,
            life.run.hardware.players(ranks.size),
        )
        done |= {(one.task.key, one.sample): one for one in (player.play(rest) if rest else [])}
    return [replace(done[start.task.key, start.sample], task=start.task) for start in starts]


def evaluate_run(run: Run, screen: Screen | None = None) -> Summary:
    """Evaluate the newest good checkpoint of the run in `run.folder`, in a folder of its own below it."""
    own, label, notes = at_newest(run)
    return evaluate_model(own, screen, label=label, notes=notes)


def at_newest(run: Run) -> tuple[Run, str, list[str]]:
    """Return the evaluation of a run's newest good checkpoint as a run of its own, its label, and notes."""
    newest, notes = newest_of(run)
    model = replace(run.model, path=str(newest), lora=None)
    folder = run.folder / EVALUATIONS / evaluation_name(run, newest)
    steps = int(newest.name.removeprefix(STEP))
    label = f"{name_of(run.config['algo'])}, {newest.name}"
    return replace(run, model=model, folder=folder, steps=steps), label, notes


def newest_of(run: Run) -> tuple[Path, list[str]]:
    """Return a run's newest good checkpoint, and notes on newer ones that are damaged."""
    newest, notes = newest_good(run.folder / CHECKPOINTS)
    if newest is None:
        raise EvaluateError("; ".join([*notes, f"{run.folder} has no checkpoint to evaluate: {NO_CHECKPOINT}"]))
    return newest, notes


def evaluate_model(run: Run, screen: Screen | None = None, *, label: str = "", notes: Sequence[str] = ()) -> Summary:
    """Evaluate the run's model, which has learned for `run.steps`; on as many processes as were started. What was
    evaluated before is told again."""
    refuse_trained(run.folder)
    with open_run(run, screen, trains=False) as life:
        run, life.policy, life.notes = life.run, run.model.path, tuple(notes)
        life.advance(step=run.steps)
        done = read_finished(life) if life.process.ranks.first(lambda: read_finished(life) is not None) else None
        for line in (*notes, f"{'evaluated before' if done else 'evaluating'}: {life.policy}"):
            life.process.screen.say(line)
        fetch_first(life)
        summary = done or play_model(life)
        tell_run(life, summary, label or model_name(run), "eval")
        return summary


def play_model(life: Life) -> Summary:
    """The run's model on the held-out problems, and the floor beside it."""
    run = life.run
    with record_end(life), open_fleet(run, life.process.ranks) as fleet:
        policy = build_policy(run, run.model, fleet)
        life.process.engine = policy.engine
        figures = floor_beside(life)
        weights = life.process.ranks.first(lambda: model_digest(run.model))
        for evaluation in judge(life, policy.rollout, "eval", weights):
            figures = {**figures, **evaluation.figures}
        return end(life, "finished", figures)


def refuse_trained(folder: Path) -> None:
    """Refuse a folder that holds a training run: an evaluation would write over its files."""
    if (folder / METRICS).exists() or (folder / CHECKPOINTS).exists():
        raise EvaluateError(
            f"{folder} is a run's own folder: rlx eval run={folder} evaluates its checkpoint beside its results; for "
            "another model choose another hydra.run.dir"
        )


def evaluation_name(run: Run, checkpoint: Path) -> str:
    """Return a name for a checkpoint and settings."""
    config = {key: value for key, value in run.config.items() if key not in FREE_KEYS} | data_of(run.env)
    config["code"] = code_digest(config)
    return f"{checkpoint.name}-{digest_of({'config': config, 'weights': weights_of(checkpoint)})[:8]}"


def tell_run(life: Life, summary: Summary, label: str = "", verb: str = "train") -> None:
    """The paper's two tables, on the screen and in results.md; where everything is, and what to run next."""
    if not life.process.ranks.is_first:
        return
    run, screen = life.run, life.process.screen
    write_aside(run.folder / RESULTS, results_text(run, summary, label, verb))
    for table in tables_of(run, summary, label):
        screen.show(to_rich(table))
    for warning in summary.warnings:
        screen.say(f"warning: {warning}")
    screen.say(left_in(run.folder))
    screen.say("\n".join(["next:", *(f"  {shlex.join(words)}" for words in next_commands(life))]))


def next_commands(life: Life) -> list[list[str]]:
    """Return the commands that look at what the run has made, as they would be typed. What was learned comes
    first, and the page that shows everything last."""
    run, folder = life.run, str(life.run.folder)
    commands = [["rlx", "show", folder, "--best"]]
    if any((run.folder / TRAJECTORIES).glob("start-*.jsonl")):
        commands.append(["rlx", "compare", folder])
    num = run.evaluate.num_tasks
    if life.checkpoints.exists() and num_held_out(run, num + 1) > num:
        commands.append(["rlx", "eval", f"run={folder}", f"evaluate.num_tasks={4 * num}"])
    return [*commands, ["rlx", "replay", folder], ["rlx", "view", folder]]
