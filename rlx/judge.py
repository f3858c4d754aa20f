"""The end of a run: the policy it began with and the one it has, on the same held-out tasks, side by side."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from socket import gethostname
from typing import Any

from rlx import __version__
from rlx.agent import Agent, build_policy
from rlx.algo.parts import grouped
from rlx.codec import from_json, to_json
from rlx.console import Screen
from rlx.evaluate.evaluate import Evaluate, Evaluation, evaluate, floor
from rlx.evaluate.figures import gains, values
from rlx.evaluate.intervals import Estimate
from rlx.evaluate.summary import Summary
from rlx.evaluate.tables import accuracy_table, to_markdown, to_rich, tool_table
from rlx.fleet import open_fleet
from rlx.folder import digest_of, write_aside
from rlx.learner.checkpoint import newest_good
from rlx.life import CHECKPOINTS, Life, end, living, told
from rlx.lock import hold
from rlx.model.load import Model, load_weights
from rlx.model.packaged import cache_folder
from rlx.pulse import RANKS
from rlx.rollout.play import Rollout
from rlx.rollout.together import together
from rlx.run import Run
from rlx.store import load, save
from rlx.types import Environment, Group, Metrics, Sampling, Start, Trajectory
from rlx.warm import weights_digest

Figures = dict[str, Estimate]


def judge_run(life: Life, agent: Agent, start: Model) -> Figures:
    """`eval/…` of the trained policy, `start/…` of the one it began with, `gain/…` paired, `random/…` the floor."""
    settings = life.run.evaluate
    ours = judge(life, partial(agent.policy.rollout, prepare=agent.sync), "eval", version=agent.learner.num_updates)
    theirs = judge_start(life, agent, start)
    found = floor(settings, life.run.env)
    for mine, other in zip(ours, theirs, strict=True):
        noun = "gain" if mine is ours[0] else f"gain@{mine.max_rounds}"
        found = {**found, **other.figures, **mine.figures, **paired(settings, mine, other, noun)}
    return found


def judge_on_the_way(life: Life, agent: Agent, step: int) -> Metrics:
    """`eval/…` of the policy as it is after `step` steps, where evaluate.every asks for it."""
    every = life.run.evaluate.every
    if not every or step % every or step == life.run.steps:
        return {}
    life.ahead(step)
    found = judge(life, partial(agent.policy.rollout, prepare=agent.sync), "eval")
    return {name: value for evaluation in found for name, value in values(evaluation.figures).items()}


def judge_start(life: Life, agent: Agent, start: Model) -> list[Evaluation]:
    """Evaluate the policy the run began with, or read what another run that began there left of it."""

    run = life.run

    def prepare() -> None:
        with in_turn(life):
            agent.policy.engine.load(load_weights(start, run.hardware.dtype), 0)

    config = {key: run.config[key] for key in ("env", "protocol", "sampling", "evaluate", "hardware")}
    digest = digest_of({"config": config, "weights": weights_digest(start), "rlx": __version__})
    act = partial(agent.policy.rollout, prepare=prepare)
    return judge(life, act, "start", kept=cache_folder() / "evaluations" / digest)


@contextmanager
def in_turn(life: Life) -> Iterator[None]:
    """One process of a machine after another, so that its memory holds a whole model once."""
    if life.ranks.size == 1:
        yield
        return
    with hold(life.run.folder / RANKS / f".load-{gethostname()}", wait=True):
        yield


def paired(settings: Evaluate, mine: Evaluation, other: Evaluation, noun: str) -> Figures:
    """What one evaluation has over another, task by task."""
    resampling = {"num_resamples": settings.num_resamples, "seed": settings.seed}
    return gains(mine.scores, other.scores, ks=settings.ks, noun=noun, **resampling)


def judge(
    life: Life, act: Callable[..., Rollout], noun: str, *, kept: Path | None = None, version: int | None = None
) -> list[Evaluation]:
    """Play the held-out tasks under every budget; the episodes are stored for replay. They are not played again where
    `kept` has them, or the run's folder does by policy `version`, from before the run was cut off."""
    run, settings = life.run, life.run.evaluate
    saved: set[Path] = set()

    def own(max_rounds: int) -> Path:
        return run.folder / "trajectories" / f"{noun}-{max_rounds}.jsonl"

    def store(path: Path, groups: Sequence[Group], max_rounds: int) -> None:
        if life.ranks.is_first and path not in saved:
            save(path, groups, max_rounds=max_rounds)
            saved.add(path)

    def play(env: Environment, sampling: Sampling, starts: Sequence[Start]) -> list[Trajectory]:
        shared = None if kept is None else kept / f"{env.max_rounds}.jsonl"
        found = None if shared is None else read_kept(life, shared)
        if found is not None:
            return found
        played = None if version is None else read_kept(life, own(env.max_rounds), version)
        if played is None:
            played = play_now(life, act(env, sampling, ("evaluate", settings.seed)), noun, starts)
        groups = grouped([start.task for start in starts[:: settings.num_samples]], played, settings.num_samples)
        life.spend(groups)
        for path in (own(env.max_rounds), *([] if shared is None else [shared])):
            store(path, groups, env.max_rounds)
        return played

    evaluations = evaluate(settings, run.env, play, max_context=run.sampling.max_context, noun=noun)
    for found in evaluations:
        store(own(found.max_rounds), found.groups, found.max_rounds)
    return evaluations


def play_now(life: Life, rollout: Rollout, noun: str, starts: Sequence[Start]) -> list[Trajectory]:
    """The episodes, by all ranks, with a bar on the screen."""
    life.pulse.at(f"evaluation of {noun}")
    with life.screen.bar(f"evaluate {noun}", len(starts), "episodes") as advance:

        def progress(done: int) -> None:
            life.told(done)
            advance(done * life.ranks.size)

        player = replace(rollout, check=life.interrupt.check, progress=progress)
        return together(player, life.ranks, life.run.hardware.players(life.ranks.size)).play(starts)


def read_kept(life: Life, path: Path, version: int | None = None) -> list[Trajectory] | None:
    """The episodes in a file, if there is one where rank 0 is, and if policy `version` played them, where given."""
    if not life.ranks.first(lambda: path.exists() and (version is None or is_by(version, episodes_in(path)))):
        return None
    if life.ranks.size == 1:
        return episodes_in(path)
    told = life.ranks.first(lambda: [to_json(trajectory) for trajectory in episodes_in(path)])
    return [from_json(trajectory) for trajectory in told]


def is_by(version: int, episodes: Sequence[Trajectory]) -> bool:
    """Whether this version of the policy sampled every turn."""
    return all(turn.completion.version == version for episode in episodes for turn in episode.turns)


def episodes_in(path: Path) -> list[Trajectory]:
    return [trajectory for group in load(path) for trajectory in group.trajectories]


def evaluate_run(run: Run, screen: Screen | None = None) -> Summary:
    """Evaluate a run's newest checkpoint, in a folder of its own under the run's, or else the model as it is; on as
    many processes as were started."""
    newest, _ = newest_good(run.folder / CHECKPOINTS)
    model = run.model if newest is None else replace(run.model, path=str(newest), lora=None)
    folder = run.folder if newest is None else run.folder / "evaluations" / evaluation_name(run, newest)
    with living(replace(run, folder=folder), screen, trains=False) as life:
        with told(life), open_fleet(life.run, life.ranks) as fleet:
            policy = build_policy(run, model, fleet)
            life.engine = policy.engine
            figures = floor(run.evaluate, run.env)
            for evaluation in judge(life, policy.rollout, "eval"):
                figures = {**figures, **evaluation.figures}
            summary = end(life, "finished", figures)
        tell_run(life, figures)
        return summary


def evaluation_name(run: Run, checkpoint: Path) -> str:
    """Which checkpoint, and which settings."""
    return f"{checkpoint.name}-{digest_of({key: run.config[key] for key in ('env', 'protocol', 'evaluate')})[:8]}"


def name_of(call: Mapping[str, Any]) -> str:
    """The last word of what a part of the configuration calls."""
    return str(call["_target_"]).rsplit(".", 1)[-1]


def named_rows(run: Run, figures: Figures) -> dict[str, Figures]:
    """The rows of the tables: random tries, the start, the trained policy, each under every budget."""
    warm = run.config["warm_start"].get("algo")
    labels = {
        "random": f"random, {run.evaluate.num_tries} tries",
        "start": name_of(warm) if warm else "start",
        "eval": name_of(run.config["algo"]),
    }
    rows: dict[str, Figures] = {}
    for name, figure in figures.items():
        noun, stat = name.split("/", 1)
        word, _, rounds = noun.partition("@")
        if word in labels:
            label = labels[word] + (f", {rounds} rounds" if rounds else "")
            rows.setdefault(label, {})[f"eval/{stat}"] = figure
    return rows


def tell_run(life: Life, figures: Figures) -> None:
    """The paper's two tables, on the screen and in results.md; where everything is, and what to run next."""
    if not life.ranks.is_first:
        return
    run, screen = life.run, life.screen
    named = named_rows(run, figures)
    tables = [accuracy_table(named), tool_table(named)]
    write_aside(run.folder / "results.md", "\n".join(to_markdown(table) for table in tables))
    for table in tables:
        screen.show(to_rich(table))
    screen.say(f"left in {run.folder}: " + ", ".join(sorted(path.name for path in run.folder.glob("[!.]*"))))
    screen.say(f"next: rlx replay {run.folder}   rlx eval run={run.folder} evaluate=paper")
