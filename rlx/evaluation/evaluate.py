"""Play the held-out tasks and say how well it went, for one or more limits of turns.

Generation settings of evaluation are its own: training samples plainly, evaluation as the paper does.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice

from rlx.algo.samplers import group_by_task
from rlx.base.limits import MANY, MistakeError, at_least, refuse, within
from rlx.environment import Environment
from rlx.environment.agents import groups_of_agents
from rlx.environment.world import reward_range_of
from rlx.evaluation.budget import cut_groups
from rlx.evaluation.figures import Score, attainable, figures, score
from rlx.runs.summary import Estimate
from rlx.types import Group, Sampling, Start, Task, Trajectory

Play = Callable[[int | None, Sampling, Sequence[Start]], list[Trajectory]]
"""Plays episodes with the policy under a limit of turns (None: the environment's own), in the order of the starts."""


class EvaluateError(MistakeError):
    """An evaluation that cannot be; the message is one line with the remedy."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Evaluate:
    """Settings of an evaluation."""

    num_tasks: int = 50
    """Held-out problems: the first of the environment's test split, or all where it has fewer."""
    num_samples: int = 16
    """Episodes of each problem."""
    ks: tuple[int, ...] = ()
    """Values of k for pass@k; at most num_samples. Empty: 1, 4, 8 and 16 below num_samples, and num_samples."""
    max_rounds: tuple[int, ...] = ()
    """Limits of turns to evaluate under; the first one gives the main figures. Empty: the environment's own limit."""
    temperature: float = 0.6
    """Sampling temperature; 0 is greedy."""
    top_k: int = 20
    """Sample among the k likeliest tokens; 0 is all."""
    top_p: float = 0.95
    """Sample among the likeliest tokens that hold this much probability; 1 is all."""
    max_new_tokens: int = 128
    """Tokens per turn; those of training unless set."""
    num_resamples: int = 10_000
    """Draws of the bootstrap over problems that gives the 95% intervals of shares (docs/intervals.md)."""
    num_tries: int = 8
    """Random tries that stand for one episode in the floor beside the figures, where the environment has such tries; 0
    leaves every floor out, that of random episodes too."""
    seed: int = 0
    """Seed of the test split, the sampling and the intervals; keep it to compare runs."""
    interval: int = 0
    """Training steps between evaluations on the way, whose values join metrics.jsonl; 0: only at the end."""
    untrained: bool = True
    """Also evaluate the model without its warm start, at the end of a run that has one, and report the gain over it.
    The evaluation is kept in the cache: later runs from the same model with the same settings read it."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "max_rounds", tuple(self.max_rounds))
        within(1, MANY, num_tasks=self.num_tasks, num_samples=self.num_samples)
        object.__setattr__(self, "ks", tuple(sorted(self.ks)) or default_ks(self.num_samples))
        within(1, 100_000, num_resamples=self.num_resamples)
        within(0, MANY, num_tries=self.num_tries, interval=self.interval)
        at_least(0, seed=self.seed)
        if self.ks[0] < 1 or self.ks[-1] > self.num_samples or has_twins(self.ks):
            refuse("ks", list(self.ks), f"integers from 1 to num_samples={self.num_samples}, each once")
        if any(not 0 <= rounds <= MANY for rounds in self.max_rounds) or has_twins(self.max_rounds):
            refuse("max_rounds", list(self.max_rounds), "budgets of rounds, each once, none below 0")
        self.sampling(max_context=1)

    def sampling(self, max_context: int) -> Sampling:
        return Sampling(
            temperature=self.temperature,
            top_k=self.top_k,
            top_p=self.top_p,
            max_new_tokens=self.max_new_tokens,
            max_context=max_context,
        )


def default_ks(num_samples: int) -> tuple[int, ...]:
    """Values of k for pass@k where none are given: those of the paper's tables, and the number of samples."""
    return (*(k for k in (1, 4, 8, 16) if k < num_samples), num_samples)


def has_twins(numbers: Sequence[int]) -> bool:
    return len(set(numbers)) != len(numbers)


@dataclass(frozen=True, kw_only=True)
class Evaluation:
    """Result under one limit of turns."""

    max_rounds: int | None
    """Limit of turns; None where each environment has its own limit, or none."""
    groups: tuple[Group, ...]
    """One per task, in the order of the test split."""
    scores: tuple[Score, ...]
    """One per group."""
    figures: Mapping[str, Estimate] = field(default_factory=dict)


def held_out(settings: Evaluate, env: Environment) -> list[Task]:
    """The problems every run is evaluated on: `num_tasks` of them, or all where there are fewer."""
    tasks = list(islice(env.tasks("test", settings.seed), settings.num_tasks))
    if not tasks:
        raise EvaluateError(
            "the test split has no tasks: an environment's tasks('test') gives at least one; "
            "of a data set, env.test_split names a split that has some"
        )
    num_different = len({task.key for task in tasks})
    if num_different < len(tasks):
        raise EvaluateError(
            f"the test split repeats itself: {num_different} of its first {len(tasks)} tasks differ, and intervals "
            "count each as a problem of its own; let the environment's tasks('test') give each task once"
        )
    return tasks


def evaluate(
    settings: Evaluate,
    env: Environment,
    play: Play,
    *,
    max_context: int,
    noun: str = "eval",
    agents: Mapping[str, tuple[str, ...]] | None = None,
) -> list[Evaluation]:
    """Return one Evaluation per budget. The first budget's figures are `noun/stat`, another's `noun@5/stat` (5 rounds).
    Of several agents those of `agents` are measured, one for each `Task.env`."""
    tasks, sampling = held_out(settings, env), settings.sampling(max_context)
    starts = [Start(task=task, sample=sample) for task in tasks for sample in range(settings.num_samples)]
    largest = max(settings.max_rounds, default=env.max_rounds)
    played_groups = group_by_task(tasks, play(largest, sampling, starts), settings.num_samples)
    evaluations: list[Evaluation] = []
    for rounds in limits_of(settings, env):
        groups = played_groups if rounds is None or rounds == largest else cut_groups(played_groups, rounds, env)
        measured_groups = groups if agents is None else groups_of_agents(groups, agents)
        scores = tuple(score(group, attainable(reward_range_of(env, rounds), rounds)) for group in measured_groups)
        name = f"{noun}@{rounds}" if evaluations else noun
        named_figures = figures(
            scores, ks=settings.ks, noun=name, num_resamples=settings.num_resamples, seed=settings.seed
        )
        evaluations.append(Evaluation(max_rounds=rounds, groups=tuple(groups), scores=scores, figures=named_figures))
    return evaluations


def limits_of(settings: Evaluate, env: Environment) -> tuple[int | None, ...]:
    """The limits of turns under which it is evaluated."""
    return settings.max_rounds or (env.max_rounds,)
