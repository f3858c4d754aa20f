"""Growths and episodes under way: who goes on when, at every tick.

An environment has two kinds of work: the start of an episode with its replayed turns, and a step, which includes
parsing the completion. The scheduler waits for this work at the environment's `pace`:

    inline   done at once, on this thread: for what takes microseconds
    ticks    done by a thread, admitted exactly `tool_ticks` ticks after it was asked for, early or late, so that the
             schedule never depends on the clock; starts are made ahead of their turn, and take no tick
    live     done by a thread, admitted when it is ready: for what no seed makes the same twice

There is a thread for every episode that waits, so 64 tools of 50 ms take 50 ms.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import FIRST_COMPLETED, Executor, Future, wait
from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from rlx.algo.entry import Probe
from rlx.algo.parts import Ask
from rlx.environment import Pace
from rlx.rollout.engine import RequestError
from rlx.rollout.episode import EpisodeCoroutine, EpisodeDemand, play_episode, refuse_replay
from rlx.rollout.growth import Growing
from rlx.rollout.probing import Answering, answer_probe
from rlx.rollout.times import Stopwatch
from rlx.types import Request, Start, Trajectory

if TYPE_CHECKING:
    from rlx.rollout.play import Rollout

T = TypeVar("T")

AHEAD = 8
"""Number of queued episodes that threads start in advance."""
PATIENCE = 0.1
"""Seconds between looks for an interrupt while all wait for live environments."""


@dataclass(slots=True)
class Waiting:
    """Episodes of a growth under way; it continues when the oldest `wait` of them have ended."""

    wait: int = 0
    num_begun: int = 0
    num_received: int = 0
    ended: dict[int, Any] = field(default_factory=dict)
    """Results that the growth has not received, by number in the order of their starts."""

    def begin(self, demand: Ask) -> range:
        """Return the numbers of the new episodes."""
        first, self.wait = self.num_begun, demand.wait
        self.num_begun += len(demand.starts)
        return range(first, self.num_begun)

    def take(self) -> list[Any] | None:
        """Return the oldest results once as many as are waited for are there."""
        numbers = range(self.num_received, self.num_received + self.wait)
        if any(number not in self.ended for number in numbers):
            return None
        self.num_received += self.wait
        return [self.ended.pop(number) for number in numbers]


@dataclass(frozen=True, slots=True)
class EpisodePlace:
    """Growth that an episode belongs to, and its number there."""

    growth: int
    number: int


@dataclass(slots=True, eq=False)
class ActiveEpisode:
    """An episode under way, or a probe: its coroutine, and the answer that a thread works on."""

    sessions: range
    """Sessions of its requests: one for each agent."""
    coroutine: EpisodeCoroutine | Answering
    start: Start | None
    """The episode's; a probe has None."""
    place: EpisodePlace
    pace: Pace
    answer: Future[Any] | None = None
    watch: Stopwatch = field(default_factory=Stopwatch)


class Scheduler(Generic[T]):
    """Driver of growths and episodes: each goes on when the answer that it waits for is admitted."""

    def __init__(self, rollout: Rollout, growths: Sequence[Growing[T]], pool: Executor, forks: bool) -> None:
        self.rollout, self.growths, self.pool, self.forks = rollout, growths, pool, forks
        self.results: dict[int, T] = {}
        self.waiting = [Waiting() for _ in growths]
        self.queue: deque[ActiveEpisode] = deque()
        self.active: dict[int, ActiveEpisode] = {}
        """Episodes under way by their first session."""
        self.owners: dict[int, ActiveEpisode] = {}
        """Episode that receives the completions of each session."""
        self.ended_sessions: dict[int, list[int]] = {}
        """Ended sessions of each growth, from which others may branch."""
        self.due: deque[tuple[int, ActiveEpisode]] = deque()
        """Episodes that wait for an answer, with the tick that admits it."""
        self.pending_live: list[ActiveEpisode] = []
        """Episodes of pace `live` whose answer is pending, in the order of their requests."""
        self.num_sessions = self.num_decoding = self.tick = 0

    def run(self) -> list[T]:
        """Drive all growths until they end, and return their results."""
        for index in range(len(self.growths)):
            self._wake(index, next)
        while len(self.results) < len(self.growths):
            self.rollout.check()
            self._begin()
            self.tick += 1
            for request, completion in self.rollout.engine.step():
                self.num_decoding -= 1
                self._go_on(self.owners[request.session], lambda coroutine, answer=completion: coroutine.send(answer))  # type: ignore[misc]
            while self.due and self.due[0][0] <= self.tick:
                self._admit(self.due.popleft()[1])
            self._admit_ready()
        return [self.results[index] for index in range(len(self.growths))]

    def clear(self) -> None:
        """Close all episodes and growths under way, and release their sessions, however the play ended."""
        left = [*self.active.values(), *self.queue]
        for episode in left:
            if episode.answer is not None and not episode.answer.cancel():
                episode.answer.exception()  # no episode is closed while it steps
        for episode in left:
            self._release_all(episode.sessions)
            episode.coroutine.close()
        for index in range(len(self.growths)):
            self._release(index)
        for growth in self.growths:
            growth.close()

    def _wake(self, index: int, send: Callable[[Growing[T]], Ask]) -> None:
        """Resume a growth: queue its next episodes, or keep its result if the growth ends."""
        try:
            demand = send(self.growths[index])
        except StopIteration as end:
            self.results[index] = end.value
            self._release(index)
            return
        numbers = self.waiting[index].begin(demand)
        self.queue.extend(
            self._open_episode(EpisodePlace(index, number), start)
            for number, start in zip(numbers, demand.starts, strict=True)
        )
        self._settle(index)

    def _open_episode(self, place: EpisodePlace, start: Start | Probe) -> ActiveEpisode:
        rollout, first = self.rollout, self.num_sessions
        group = place.growth if self.forks else None
        if isinstance(start, Probe):
            sessions = self._take_sessions(1)
            return ActiveEpisode(sessions, answer_probe(start, rollout.sampling, first, group), None, place, "inline")
        world = rollout.worlds[start.task.env]
        refuse_replay(world, start)
        coroutine = play_episode(world, rollout.sampling, start, rollout.stream, first, group)
        return ActiveEpisode(self._take_sessions(len(world.env.agents)), coroutine, start, place, world.env.pace)

    def _take_sessions(self, num: int) -> range:
        """Return numbers that no session has."""
        first, self.num_sessions = self.num_sessions, self.num_sessions + num
        return range(first, self.num_sessions)

    def _settle(self, index: int) -> None:
        """Wake a growth once all episodes that it waits for, the oldest first, have ended."""
        played = self.waiting[index].take()
        if played is not None:
            self._wake(index, lambda growth: growth.send(played))

    def _begin(self) -> None:
        """Begin as many episodes as may be under way, in order; threads start them, and some that are next."""
        self._start(self.rollout.num_live - len(self.active) + AHEAD)
        while self.queue and len(self.active) < self.rollout.num_live:
            self._start(1)
            episode = self.queue.popleft()
            episode.watch.begin()
            self.active[episode.sessions.start] = episode
            self.owners.update(dict.fromkeys(episode.sessions, episode))
            if episode.answer is None:
                self._go_on(episode, next)
            else:
                self._admit(episode)

    def _start(self, num: int) -> None:
        """Have threads start the next so many episodes of those that go on without a tick."""
        for episode in islice(self.queue, num):
            if episode.pace == "ticks" and episode.answer is None:
                episode.answer = self.pool.submit(next(episode.coroutine))  # type: ignore[arg-type]

    def _admit(self, episode: ActiveEpisode) -> None:
        """Hand an episode its environment's answer, or the exception that this raised, when it is there."""
        answer, episode.answer = episode.answer, None
        assert answer is not None
        error = answer.exception()
        self._go_on(
            episode, lambda coroutine: coroutine.send(answer.result()) if error is None else coroutine.throw(error)
        )

    def _admit_ready(self) -> None:
        """Admit those whose answer is ready; where nobody else can go on, wait for the first of them."""
        answers = [episode.answer for episode in self.pending_live if episode.answer is not None]
        if answers and not self.num_decoding and not self.due:
            wait(answers, timeout=PATIENCE, return_when=FIRST_COMPLETED)
        ready = [episode for episode in self.pending_live if episode.answer is not None and episode.answer.done()]
        self.pending_live = [episode for episode in self.pending_live if episode not in ready]
        for episode in ready:
            self._admit(episode)

    def _go_on(self, episode: ActiveEpisode, send: Callable[[Any], EpisodeDemand]) -> None:
        """Resume an episode: send its request to the engine, or its work to a thread, or close it if it ends."""
        episode.watch.go_on()
        try:
            demand = send(episode.coroutine)
            while episode.pace == "inline" and not isinstance(demand, Request):
                demand = answer_at_once(episode.coroutine, demand)
        except StopIteration as end:
            self._end(episode, end.value)
            return
        episode.watch.wait_for("generate" if isinstance(demand, Request) else "environment")
        if isinstance(demand, Request):
            self._add(episode, demand)
            return
        episode.answer = self.pool.submit(demand)
        if episode.pace == "live":
            self.pending_live.append(episode)
        else:
            self.due.append((self.tick + self.rollout.tool_ticks, episode))

    def _add(self, episode: ActiveEpisode, request: Request) -> None:
        try:
            self.rollout.engine.add(request)
        except RequestError as error:
            asker = (
                f"sample {episode.start.sample} of task {episode.start.task.key!r:.60}" if episode.start else "a probe"
            )
            raise RequestError(f"{asker}: {error}") from None
        self.num_decoding += 1

    def _end(self, episode: ActiveEpisode, result: Trajectory | float) -> None:
        del self.active[episode.sessions.start]
        for session in episode.sessions:
            del self.owners[session]
        if isinstance(result, float):  # nobody leaves a probe
            self._release_all(episode.sessions)
        else:
            self.ended_sessions.setdefault(episode.place.growth, []).extend(episode.sessions)
            if not self.forks:
                self._release(episode.place.growth)
            self.rollout.progress(result)
            if episode.start is not None:
                self.rollout.timed(episode.watch.result(episode.start))
        self.waiting[episode.place.growth].ended[episode.place.number] = result
        self._settle(episode.place.growth)

    def _release(self, index: int) -> None:
        """Let go of what a growth's ended episodes hold in the engine."""
        self._release_all(self.ended_sessions.pop(index, ()))

    def _release_all(self, sessions: Iterable[int]) -> None:
        for session in sessions:
            self.rollout.engine.release(session)


def answer_at_once(coroutine: EpisodeCoroutine | Answering, work: Callable[[], Any]) -> EpisodeDemand:
    """Return what an episode waits for after its environment's answer, or after the exception that this raised."""
    try:
        answer = work()
    except Exception as error:
        return coroutine.throw(error)
    return coroutine.send(answer)
