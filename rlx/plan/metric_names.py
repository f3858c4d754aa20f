"""Names of the metrics that a run will have, found by measuring episodes in which nothing happens."""

from __future__ import annotations

import re
from collections.abc import Sequence

from rlx.environment.world import parts_of
from rlx.evaluation.figures import figures, score
from rlx.rollout.measure import measure
from rlx.run.run import Run
from rlx.types import Action, Completion, Group, Task, Trajectory, Turn

FREE = re.compile(r"\b(env|reply)/.+")
"""Metrics that environments and protocols name themselves."""


def is_among(name: str, names: Sequence[str]) -> bool:
    return name in names or FREE.sub(r"\1/NAME", name) in names


def metrics_of(run: Run) -> list[str]:
    """Return the names of the metrics of a run's evaluation and rollouts, without those that depend on the clock.
    Environments and protocols choose some names during play: `env/NAME` and `reply/NAME` stand for all of them."""
    settings = run.evaluate
    nouns = ["eval", *(f"eval@{rounds}" for rounds in settings.max_rounds[1:])]
    judged = [name for noun in nouns for name in judged_by(run, noun, settings.ks)]
    return [*judged, *(measure(blanks(run), run.env) if run.steps else {})]


def judged_by(run: Run, noun: str, ks: Sequence[int]) -> list[str]:
    """The figures of one evaluation."""
    return list(figures([score(group) for group in blanks(run)], ks=ks, noun=noun, num_resamples=1))


def blanks(run: Run) -> list[Group]:
    return [blank(part, run.evaluate.num_samples) for part in parts_of(run.env)]


def blank(part: str, num_samples: int) -> Group:
    """Episodes of a turn in which nothing happened, and of which something was said."""
    task = Task(id=part, prompt=(), data={}, env=part)
    completion = Completion(token_ids=(), logprobs=(), stop="stop")
    turn = Turn(
        prompt_ids=(),
        completion=completion,
        action=Action(kind="answer", text=""),
        metrics={"NAME": 0.0},
        reply={"reply/NAME": 0.0},
    )
    episode = Trajectory(task=task, sample=0, turns=(turn,), status="done")
    return Group(task=task, trajectories=(episode,) * num_samples)
