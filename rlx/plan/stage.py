"""Facts of one stage of a run, a warm start's or the run's own: its steps, its episodes, and the load of a step.

Where the length of episodes is known a stage has one load, elsewhere three (rlx.plan.expected).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from rlx.algo.parts import Algorithm, Sampler
from rlx.environment import Environment
from rlx.environment.dialect import Dialect
from rlx.environment.world import trained_parts
from rlx.hardware.sizing.host import episode_bytes
from rlx.plan.expected import TAIL, Expected, expect_lengths
from rlx.plan.lengths import NO_HINTS, LengthHints, Lengths
from rlx.plan.openings import Opening, first_tasks, open_task
from rlx.plan.step import Load
from rlx.run.run import Run
from rlx.types import Task


@dataclass(frozen=True, kw_only=True, eq=False)
class Stage:
    """Steps of one algorithm, each derived value computed once."""

    run: Run
    """The stage as a run of its own."""
    name: str = "run"
    key: str = ""
    """Beginning of its keys in the configuration: `warm_start.before.`"""
    length_hints: LengthHints = NO_HINTS
    num_adapted: int | None = None
    """Parameters of adapters, where these alone are trained."""

    @cached_property
    def parts(self) -> Mapping[str, Environment]:
        """Environments that the stage trains on, by name."""
        return trained_parts(self.run.env)

    @cached_property
    def dialects(self) -> Mapping[str, Dialect]:
        """Protocol of each environment, by `Task.env`."""
        return self.run.dialects

    @cached_property
    def first_tasks(self) -> tuple[Task, ...]:
        """First task of every part that is trained on."""
        return tuple(first_tasks(self.run.env, self.run.seed))

    @cached_property
    def openings(self) -> tuple[Opening, ...]:
        """Beginnings of the episodes of those tasks, with their prompts."""
        return tuple(open_task(self.run.env, self.dialects, task) for task in self.first_tasks)

    @cached_property
    def expected(self) -> Expected:
        """Best available estimate of the lengths of episodes."""
        return expect_lengths(self.run, self.length_hints)

    @cached_property
    def loads(self) -> tuple[Load, ...]:
        """Load of one step for each assumed length of episodes: a single load if the length is known, else three."""
        return tuple(
            load_of(self.run.algo, lengths, self.expected.most, self.num_adapted) for lengths in self.expected.lengths
        )

    @property
    def load(self) -> Load:
        """The one load, or that in the middle."""
        return self.loads[len(self.loads) // 2]

    @property
    def num_checkpoints(self) -> int:
        """Number of checkpoints: one every few steps, and one after the last."""
        return -(-self.run.steps // self.run.checkpoint.interval)

    @property
    def num_extended(self) -> int:
        """Number of steps of a warm start after all allowed doublings."""
        return self.run.steps << self.run.extend

    @property
    def counts_forks(self) -> bool:
        """The episodes of a load count forks in."""
        return self.run.algo.sample.forks_always or self.run.algo.sample.fork_turns is not None


def load_of(algo: Algorithm, lengths: Lengths, most: int, num_adapted: int | None) -> Load:
    """Build the load of a step whose episodes have such lengths."""
    sampled, turns = max(1, round(lengths.sampled)), max(1, round(lengths.turns))
    all_turns = max(1, round(lengths.agents * lengths.turns))
    return Load(
        episodes=episodes_of(algo, all_turns),
        samples=max(1, round(episodes_a_task(algo.sample, all_turns))),
        prompt=round(lengths.prompt),
        sampled=sampled,
        observed=round(lengths.observed),
        turns=turns,
        contexts=max(1.0, lengths.contexts),
        longest=min(most, TAIL * sampled),
        agents=lengths.agents,
        learners=lengths.learners,
        reference="reference" in algo.needs,
        critic=algo.critic is not None,
        plays=not algo.imitates,
        epochs=algo.optimizer.num_epochs,
        updates=algo.optimizer.num_epochs * algo.optimizer.num_minibatches,
        trained=num_adapted,
    )


def episodes_of(algo: Algorithm, turns: int) -> int:
    """Count the episodes of a step: those of all tasks, or as many as have the step's turns."""
    most = round(algo.num_prompts * episodes_a_task(algo.sample, turns))
    return most if algo.num_turns is None else min(most, math.ceil(algo.num_turns / turns))


def episodes_a_task(sampler: Sampler, turns: int) -> float:
    """Count the episodes of a task; a fork that is always played is (T + 1) / 2T of one with T turns.

    The share assumes that every turn is equally likely to be forked; a sampler may define another (`fork_turns`). Forks
    that are not always played are not counted.
    """
    forks = sampler.num_forks if sampler.forks_always else 0
    played = forks * (turns + 1) / 2 if sampler.fork_turns is None else sampler.fork_turns(turns)
    return sampler.num_episodes + played / turns


def held_bytes(load: Load) -> int:
    """Estimate the bytes of a step's episodes in each process."""
    return episode_bytes(load.agents * load.episodes, load.sampled, load.turns, load.context)


def num_tokens(load: Load) -> int:
    """Count the tokens of a step's episodes, prompts in each, in the contexts of all agents."""
    return round(load.agents * load.episodes * (load.prompt + load.sampled + load.observed))
