"""Many episodes at once: each a coroutine that asks for completions and for environment steps (rlx.rollout.episode).

    growths   one per task: yield starts, are sent trajectories (rlx.algo.parts.Growth)
    lives     one per episode, so many at once as may be: ask for completions and steps
    engine    one token a tick for every request; a pool of threads for environment steps

Episodes begin in the order in which growths ask for them: while one growth waits, others' episodes fill the engine.
Completions come from the engine's ticks, environment steps from the pool, so tools run beside decoding. A step's answer
is admitted exactly `tool_ticks` ticks after it was asked for, early or late: the schedule never depends on the clock.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cached_property
from typing import Generic, TypeVar

from rlx.algo.parts import Flat, Sampler
from rlx.rollout.engine import Engine
from rlx.rollout.episode import (
    Asked,
    Life,
    Seen,
    World,
    demonstrate_episode,
    play_episode,
    refuse_replay,
    stream_of,
    tell_apart,
    worlds_of,
)
from rlx.rollout.growth import Growing, all_at_once, growths, sample_flat
from rlx.rollout.speech import Speech
from rlx.types import Environment, Group, Request, Sampling, Start, Step, Task, Trajectory

T = TypeVar("T")


@dataclass(frozen=True, kw_only=True)
class Rollout:
    """A policy ready to act: what a sampler asks (see rlx.algo.parts.Player)."""

    env: Environment
    speech: Speech
    engine: Engine
    sampling: Sampling
    max_rounds: int | None = None
    """Turns that may pass in an episode; None: as many as its environment says."""
    stream: tuple = ()
    """What the random streams are for, e.g. (seed, step)."""
    num_live: int = 80
    """Episodes under way at once; the next begins when one ends, so caches are held for no more than these."""
    num_workers: int = 4
    """Threads for environment steps."""
    tool_ticks: int = 2
    """Decoding ticks after which an environment's answer is admitted."""
    prepare: Callable[[], None] = field(default=lambda: None)
    """Called before sampling: brings the engine's weights up to date."""
    keep: bool = True
    """Whether the engine keeps its weights for the next play; without, `prepare` loads some."""
    check: Callable[[], None] = field(default=lambda: None)
    """Called once a tick; raises to interrupt."""
    progress: Callable[[Trajectory], None] = field(default=lambda ended: None)
    """Given every episode as it ends."""
    seen: Seen = field(default_factory=Counter, repr=False, compare=False)
    """What was played under `stream`."""

    @cached_property
    def worlds(self) -> dict[str, World]:
        """What it plays in, by `Task.env`."""
        return worlds_of(self.env, self.speech, self.max_rounds)

    def sample(self, sampler: Sampler, tasks: Sequence[Task]) -> list[Group]:
        """One group per task."""
        if isinstance(sampler, Flat):
            return sample_flat(self, sampler, tasks)
        return self.grow(growths(sampler, tasks, self.seen))

    def play(self, starts: Sequence[Start]) -> list[Trajectory]:
        """All episodes together, in the order of `starts`."""
        return self.grow([all_at_once(tell_apart(starts, self.seen))], forks=False)[0]

    def grow(self, growths: Sequence[Growing[T]], forks: bool = True) -> list[T]:
        """What each growth returns; they are driven together, and their starts have been told apart. If it `forks`, the
        contexts of its episodes are kept until it ends."""
        self.prepare()
        with ThreadPoolExecutor(self.num_workers, thread_name_prefix="environment") as pool:
            stage = Stage(self, growths, pool, forks)
            try:
                return stage.run()
            finally:
                stage.clear()
                self.engine.rest(self.keep)

    def demonstrate(self, tasks: Sequence[Task]) -> list[Trajectory]:
        """The environment's own expert, acting for real: every observation is the environment's answer."""
        return [
            demonstrate_episode(self.worlds[task.env], task, stream_of(*self.stream, task.key, sample))
            for sample, task in enumerate(tasks)
        ]


@dataclass(slots=True)
class Wave:
    """Episodes that a growth waits for; it goes on when all have ended."""

    waits: int
    ended: dict[int, Trajectory] = field(default_factory=dict)
    """By place in the wave."""


@dataclass(frozen=True, slots=True)
class Place:
    """Whose episode it is: which growth's, and which of its wave."""

    growth: int
    index: int


class Stage(Generic[T]):
    """Growths and episodes under way."""

    def __init__(self, rollout: Rollout, growths: Sequence[Growing[T]], pool: ThreadPoolExecutor, forks: bool) -> None:
        self.rollout, self.growths, self.pool, self.forks = rollout, growths, pool, forks
        self.results: dict[int, T] = {}
        self.waves: dict[int, Wave] = {}
        self.queue: deque[tuple[Place, Start]] = deque()
        self.lives: dict[int, tuple[Life, Place]] = {}
        """By session."""
        self.kept: dict[int, list[int]] = {}
        """By growth, the sessions of its episodes that have ended, which others may leave."""
        self.due: deque[tuple[int, int, Future[Step]]] = deque()
        """Steps under way: the tick that admits them, and for which session."""
        self.num_begun = 0
        self.tick = 0

    def run(self) -> list[T]:
        """Until every growth has ended; what they returned."""
        rollout = self.rollout
        for index in range(len(self.growths)):
            self._wake(index, next)
        while len(self.results) < len(self.growths):
            rollout.check()
            while self.queue and len(self.lives) < rollout.num_live:
                self._begin(*self.queue.popleft())
            self.tick += 1
            for request, completion in rollout.engine.step():
                self._advance(request.session, lambda life, answer=completion: life.send(answer))  # type: ignore[misc]
            while self.due and self.due[0][0] <= self.tick:
                _, session, future = self.due.popleft()
                self._advance(session, lambda life, future=future: answer_life(life, future))  # type: ignore[misc]
        return [self.results[index] for index in range(len(self.growths))]

    def clear(self) -> None:
        """Leave nothing under way, however it ended."""
        for _, _, step in self.due:
            if not step.cancel():
                step.exception()  # no episode is closed while it steps
        for session, (life, _) in self.lives.items():
            self.rollout.engine.release(session)
            life.close()
        for index in range(len(self.growths)):
            self._release(index)
        for growth in self.growths:
            growth.close()

    def _wake(self, index: int, send: Callable[[Growing[T]], Sequence[Start]]) -> None:
        """Let a growth say what to play next, if it does not end."""
        try:
            starts = send(self.growths[index])
        except StopIteration as end:
            self.results[index] = end.value
            self._release(index)
            return
        self.waves[index] = Wave(len(starts))
        self.queue.extend((Place(index, place), start) for place, start in enumerate(starts))
        self._settle(index)

    def _settle(self, index: int) -> None:
        """Wake a growth whose wave has ended."""
        wave = self.waves[index]
        if len(wave.ended) == wave.waits:
            played = [wave.ended[place] for place in range(wave.waits)]
            self._wake(index, lambda growth: growth.send(played))

    def _begin(self, place: Place, start: Start) -> None:
        session, self.num_begun = self.num_begun, self.num_begun + 1
        rollout = self.rollout
        refuse_replay(rollout.worlds[start.task.env], start)
        group = place.growth if self.forks else None
        life = play_episode(rollout.worlds[start.task.env], rollout.sampling, start, rollout.stream, session, group)
        self.lives[session] = (life, place)
        self._advance(session, next)

    def _release(self, index: int) -> None:
        """Let go of what a growth's ended episodes hold in the engine."""
        for session in self.kept.pop(index, ()):
            self.rollout.engine.release(session)

    def _advance(self, session: int, send: Callable[[Life], Asked]) -> None:
        """Let an episode say what it waits for, if it does not end."""
        life, place = self.lives[session]
        try:
            asked = send(life)
        except StopIteration as end:
            self._end(session, place, end.value)
            return
        if isinstance(asked, Request):
            self.rollout.engine.add(asked)
        else:
            self.due.append((self.tick + self.rollout.tool_ticks, session, self.pool.submit(asked)))

    def _end(self, session: int, place: Place, trajectory: Trajectory) -> None:
        del self.lives[session]
        self.kept.setdefault(place.growth, []).append(session)
        if not self.forks:
            self._release(place.growth)
        self.rollout.progress(trajectory)
        self.waves[place.growth].ended[place.index] = trajectory
        self._settle(place.growth)


def answer_life(life: Life, future: Future[Step]) -> Asked:
    """Hand an episode its environment's answer, or the exception the environment raised."""
    error = future.exception()
    return life.throw(error) if error is not None else life.send(future.result())
