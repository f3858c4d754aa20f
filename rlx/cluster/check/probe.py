"""Do the part of `rlx check` inside the processes of a run: a short run from start to end, then the same run resumed
from its checkpoint and probed. Each process leaves what it measured in `measured/PART-RANK.json`.
"""

from __future__ import annotations

import gc
import json
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from functools import partial
from itertools import islice
from typing import Any

from rich.console import RenderableType

from rlx.algo.credit import per_row
from rlx.algo.losses import policy_gradient, policy_loss
from rlx.algo.samplers import independent
from rlx.base.console import Screen
from rlx.base.regular import make_inside, write_aside
from rlx.cluster.check.remains import present, subtract
from rlx.cluster.check.trial import CLEAR, FASTER, MEASURED, NUDGES
from rlx.hardware.profile import Hardware
from rlx.hardware.ranks import find_place
from rlx.learner.batch import Batch, collate
from rlx.rollout.distributed import distribute
from rlx.run.execution import Execution, open_run, save_checkpoint
from rlx.run.fleet import open_fleet
from rlx.run.resume import newest_of
from rlx.run.run import Run
from rlx.run.trainee import Trainee
from rlx.run.warm import warm_model
from rlx.training import learn, stage_of, train, warm_up
from rlx.types import Group

NUM_SAMPLES = 2


@dataclass(frozen=True, kw_only=True)
class Probe:
    """Figures of one policy, before and after it was nudged."""

    gap: float
    """Mean |log-prob of the engine - of the learner| over sampled tokens, as the run left them."""
    moved: float
    """The same once the learner was nudged and the engine not."""
    arrived: float
    """The same once the engine has the nudged weights, over tokens that it samples with them."""
    versions: tuple[int, ...]
    """Policy versions that these tokens name."""
    version: int
    """The version that they should name."""
    seconds: dict[str, float]
    """Seconds of each action, by its name."""
    tokens: int
    """Sampled in `sample`, learned from in `update`."""
    episodes: int
    turns: int
    observed: int


def play_part(part: str, run: Run) -> None:
    """One of `PROBES`, in this process of the run."""
    before = present()
    results = PROBES[part](run)
    gc.collect()
    remains = [line for line in subtract(before, present()) if line != "thread: tqdm_monitor"]  # for all of its life
    rank = find_place(slurm=run.hardware.num_processes > 1).rank
    make_inside(run.folder, MEASURED)
    report = {**results, "by": f"{part}, rank {rank}", "left": remains, "device": device_peak(run.hardware)}
    write_aside(run.folder / MEASURED / f"{part}-{rank}.json", json.dumps(report) + "\n")


def device_peak(hardware: Hardware) -> int | None:
    """Bytes that torch held on this process's GPU at most."""
    import torch

    return torch.cuda.max_memory_allocated() if hardware.device == "cuda" else None


class Bars(Screen):
    """Shows how far a run is; what came of it, and where, is for `rlx check` to say, whose folder goes away."""

    def say(self, text: str) -> None:
        self.note(text)

    def show(self, table: RenderableType) -> None:
        """Nothing: a check has no figures."""


def train_all(run: Run) -> dict[str, Any]:
    """Do what `rlx train` does."""
    train(run, Bars())
    return {}


def gone_on(run: Run) -> dict[str, Any]:
    """Resume a run that was cut off, up to its evaluation; then probe it."""
    with (
        open_run(run, Bars()) as execution,
        open_fleet(execution.run, execution.process.ranks) as execution.process.fleet,
    ):
        start = warm_model(execution.run, partial(warm_up, execution))
        with stage_of(execution, execution.run, start) as trainee:
            learn(execution, trainee)
            return asdict(probe(execution, trainee))


PROBES: dict[str, Callable[[Run], dict[str, Any]]] = {"train": train_all, "resume": gone_on}


def probe(execution: Execution, trainee: Trainee) -> Probe:
    """Sample and compare; nudge the learner until that shows; give the engine its weights, sample and compare again."""
    seconds: dict[str, float] = {}

    def timed(name: str, do: Callable[[], Any]) -> Any:
        execution.process.pulse.at(f"probe: {name}")
        began = time.monotonic()
        done = do()
        seconds[name] = time.monotonic() - began
        return done

    learner, limit = trainee.learner, execution.run.hardware.tolerance
    trainee.sync()
    timed("checkpoint", lambda: save_checkpoint(execution, trainee, execution.run.steps))
    newest = newest_of(execution)
    assert newest is not None
    timed("load", lambda: learner.load(newest))
    groups = timed("sample", lambda: sample(execution, trainee, "before"))
    batch = collate(groups)
    gap = distance(trainee, batch)
    moved = 0.0
    for _ in range(NUDGES):
        timed("update", lambda: nudge(trainee, batch))
        moved = distance(trainee, batch)
        if moved > CLEAR * max(limit, gap):
            break
    timed("sync", trainee.sync)
    after = sample(execution, trainee, "after")
    turns = [turn for group in groups for episode in group.trajectories for turn in episode.turns]
    return Probe(
        gap=gap,
        moved=moved,
        arrived=distance(trainee, collate(after)),
        versions=tuple(sorted({t.completion.version for g in after for e in g.trajectories for t in e.turns})),
        version=learner.num_updates,
        seconds=seconds,
        tokens=batch.num_tokens,
        episodes=sum(len(group.trajectories) for group in groups),
        turns=len(turns),
        observed=sum(turn.tool.num_tokens for turn in turns),
    )


def sample(execution: Execution, trainee: Trainee, name: str) -> list[Group]:
    """Some episodes, by all processes that play."""
    run = execution.run
    act = trainee.policy.rollout(
        run.env,
        run.sampling,
        ("check", name),
        check=execution.process.interrupt.check,
        progress=execution.process.note_end,
    )
    player = distribute(act, execution.process.ranks, run.hardware.players(execution.process.ranks.size))
    tasks = list(islice(run.env.tasks("train", run.seed), run.algo.num_prompts))
    return player.sample(independent(NUM_SAMPLES), tasks)


def distance(trainee: Trainee, batch: Batch) -> float:
    """Return the mean absolute difference between the engine's log-probs and the learner's present log-probs."""
    return float((trainee.learner.measure(batch)["logp"] - batch.engine_logp_M).abs().mean())


def nudge(trainee: Trainee, batch: Batch) -> None:
    """Make what was sampled less likely, faster each time; whatever the algorithm, this moves every weight."""
    learner = trainee.learner
    for group in learner.adam_groups():
        group["peak"] = min(1.0, FASTER * group["peak"])
    learner.optimizer = replace(learner.optimizer, schedule="constant", warmup_steps=0, hold_steps=0, num_minibatches=1)
    blamed = batch.with_credit(per_row([-1.0] * len(batch.trajectory_R)))
    learner.update(blamed, policy_loss(policy_gradient()))
