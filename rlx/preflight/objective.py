"""Check a run's objective: every name in it is a metric that the run will have (rlx/commands/objective.py)."""

from __future__ import annotations

import re
from collections.abc import Sequence

from rlx.evaluate.figures import figures, score
from rlx.limits import MistakeError, near
from rlx.rollout.measure import measure
from rlx.run.run import Run
from rlx.types import Action, Completion, Group, Task, Trajectory, Turn
from rlx.world import parts_of

SAID = re.compile(r"\b(env|reply)/.+")
"""Metrics of environments and protocols, by names of their own."""


class ObjectiveError(MistakeError):
    """An objective that the run does not have: one line that says which it has."""


def names_of(run: Run) -> list[str]:
    """The objectives asked for, as a list."""
    asked = run.objective
    return [] if asked is None else [asked] if isinstance(asked, str) else list(asked)


def check_objective(run: Run) -> None:
    """Refuse a name that no metric of the run will have."""
    if run.objective is not None and not names_of(run):
        raise ObjectiveError("objective=[]: expected the name of a metric, a list of names, or null")
    known = metrics_of(run) if run.objective is not None else []
    for name in names_of(run):
        if not is_among(name, known):
            raise ObjectiveError(f"objective={name}: the run has no such metric{near(name, known)}")


def is_among(name: str, known: Sequence[str]) -> bool:
    return name in known or SAID.sub(r"\1/NAME", name) in known


def metrics_of(run: Run) -> list[str]:
    """The names that a run's evaluation and its rollouts give, of which none depends on the clock: those of an episode
    in each environment. What is measured there no one knows before it is played: `env/NAME` and `reply/NAME`
    stand for all of it."""
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
    said = Completion(token_ids=(), logprobs=(), stop="stop")
    turn = Turn(
        prompt_ids=(),
        completion=said,
        action=Action(kind="answer", text=""),
        metrics={"NAME": 0.0},
        reply={"reply/NAME": 0.0},
    )
    episode = Trajectory(task=task, sample=0, turns=(turn,), status="done")
    return Group(task=task, trajectories=(episode,) * num_samples)
