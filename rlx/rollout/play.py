"""Many episodes at once: each a coroutine that asks for completions and for environment steps (rlx.rollout.episode).

    growths   one per task: yield starts, are sent trajectories (rlx.algo.parts.Growth)
    episodes  one coroutine each, up to `num_live` at once: ask for completions and steps
    engine    one token a tick for every request; a pool of threads for environment steps

Episodes begin in the order in which growths ask for them: while one growth waits, others' episodes fill the engine.
What an environment does is waited for at its pace (rlx.rollout.scheduler): tools run beside decoding.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cached_property
from random import Random
from typing import TypeVar

from rlx.algo.parts import Growth, Sampler, SamplerContext
from rlx.base.stream import stream_of
from rlx.environment import Environment
from rlx.rollout.engine import Engine
from rlx.rollout.episode import (
    RepeatCounts,
    World,
    demonstrate_episode,
    number_repeats,
    worlds_of,
)
from rlx.rollout.growth import Growing, all_at_once, growths, sample_flat
from rlx.rollout.scheduler import AHEAD, Scheduler
from rlx.rollout.speech import Speech
from rlx.runs.times import EpisodeTimes
from rlx.types import Group, Sampling, Start, Task, Trajectory

T = TypeVar("T")


@dataclass(frozen=True, kw_only=True)
class Rollout:
    """Player of one process: a policy in its environments, with the settings of a step (see rlx.algo.parts.Player)."""

    env: Environment
    speech: Speech
    engine: Engine
    sampling: Sampling
    others: Mapping[str, Speech] = field(default_factory=dict)
    """Speech of the agents that other policies play, by agent."""
    max_rounds: int | None = None
    """Limit of turns in an episode; None: the environment's limit."""
    stream: tuple = ()
    """Key of the random streams, e.g. (seed, step)."""
    num_live: int = 80
    """Episodes under way at once; the next begins when one ends, so caches are held for no more than these."""
    tool_ticks: int = 2
    """Decoding ticks after which an environment's answer is admitted."""
    prepare: Callable[[], None] = field(default=lambda: None)
    """Called before sampling: brings the engine's weights up to date."""
    keep: bool = True
    """Keep the engine's weights for the next play. Training does not: `prepare` loads new ones before every play."""
    check: Callable[[], None] = field(default=lambda: None)
    """Called once a tick; raises to interrupt."""
    progress: Callable[[Trajectory], None] = field(default=lambda ended: None)
    """Given every episode as it ends."""
    timed: Callable[[EpisodeTimes], None] = field(default=lambda times: None)
    """Called with the times of every episode when the episode ends."""
    repeats: RepeatCounts = field(default_factory=Counter, repr=False, compare=False)
    """Count of the starts that were played under `stream`."""

    @cached_property
    def worlds(self) -> dict[str, World]:
        """Environments and their speech, by `Task.env`."""
        return worlds_of(self.env, self.speech, self.max_rounds, self.others)

    def sample(self, sampler: Sampler, tasks: Sequence[Task]) -> list[Group]:
        """Play the sampler on each task; return a group per task."""
        if sampler.grow is None:
            return sample_flat(self, sampler, tasks)
        return self.grow(growths(sampler, self.with_context(sampler.grow), tasks, self.repeats))

    def with_context(self, grow: Callable[[SamplerContext], Growth]) -> Callable[[Task, int], Growth]:
        """Return a function that begins the coroutine on a task with its SamplerContext. The function's second argument
        is how often the task came before, which keys the random numbers."""

        def begin(task: Task, repeat: int) -> Growth:
            rng = Random("/".join(map(str, (*self.stream, "steer", task.key, repeat))))
            return grow(SamplerContext(task=task, entries=self.worlds[task.env].speech.entries, rng=rng))

        return begin

    def play(self, starts: Sequence[Start]) -> list[Trajectory]:
        """Play all episodes together; return them in the order of `starts`."""
        return self.grow([all_at_once(number_repeats(starts, self.repeats))], forks=False)[0]

    def grow(self, growths: Sequence[Growing[T]], forks: bool = True) -> list[T]:
        """Return the result of each growth; they are driven together, and their starts are numbered. If it `forks`, the
        contexts of its episodes are kept until it ends."""
        self.prepare()
        with ThreadPoolExecutor(self.num_live + AHEAD, thread_name_prefix="environment") as pool:
            scheduler = Scheduler(self, growths, pool, forks)
            try:
                return scheduler.run()
            finally:
                scheduler.clear()
                self.engine.rest(self.keep)

    def demonstrate(self, tasks: Sequence[Task]) -> list[Trajectory]:
        """Play the environment's expert once a task: every observation is the environment's answer."""
        return [
            demonstrate_episode(self.worlds[task.env], task, stream_of(*self.stream, task.key, sample))
            for sample, task in enumerate(tasks)
        ]
