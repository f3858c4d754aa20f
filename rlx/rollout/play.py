"""Many episodes at once: each a coroutine that asks for completions and for environment steps (rlx.rollout.episode).

Completions come from the engine's ticks, environment steps from a pool of threads, so tools run beside decoding. A
step's answer is admitted exactly `tool_ticks` ticks after it was asked for, early or late, so the schedule never
depends on the clock.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field

from rlx.rollout.engine import Engine
from rlx.rollout.episode import Asked, Life, Seen, Speech, close_turn, play_episode, stream_of, tell_apart
from rlx.types import Environment, Request, Sampling, Start, Step, Task, Trajectory, Turn


@dataclass(frozen=True, kw_only=True)
class Rollout:
    """A policy ready to act: what a sampler asks (see rlx.types.Player)."""

    env: Environment
    speech: Speech
    engine: Engine
    sampling: Sampling
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

    def play(self, starts: Sequence[Start]) -> list[Trajectory]:
        """All episodes together, in the order of `starts`."""
        self.prepare()
        with ThreadPoolExecutor(self.num_workers, thread_name_prefix="environment") as pool:
            return self._live(tell_apart(starts, self.seen), pool)

    def _live(self, starts: Sequence[Start], pool: ThreadPoolExecutor) -> list[Trajectory]:
        lives = [
            play_episode(self.env, self.speech, self.sampling, start, self.stream, session)
            for session, start in enumerate(starts)
        ]
        begun = 0
        ended: dict[int, Trajectory] = {}
        due: deque[tuple[int, int, Future[Step]]] = deque()
        tick = 0

        def advance(session: int, send: Callable[[Life], Asked]) -> None:
            try:
                asked = send(lives[session])
            except StopIteration as end:
                ended[session] = end.value
                self.engine.release(session)
                self.progress(end.value)
                return
            if isinstance(asked, Request):
                self.engine.add(asked)
            else:
                due.append((tick + self.tool_ticks, session, pool.submit(asked)))

        try:
            while len(ended) < len(lives):
                self.check()
                while begun < len(lives) and begun - len(ended) < self.num_live:
                    begun += 1
                    advance(begun - 1, next)
                tick += 1
                for request, completion in self.engine.step():
                    advance(request.session, lambda life, answer=completion: life.send(answer))  # type: ignore[misc]
                while due and due[0][0] <= tick:
                    _, session, future = due.popleft()
                    advance(session, lambda life, future=future: answer_life(life, future))  # type: ignore[misc]
        finally:
            for session in range(len(lives)):
                self.engine.release(session)
            self.engine.rest(self.keep)
        return [ended[session] for session in range(len(lives))]

    def demonstrate(self, tasks: Sequence[Task]) -> list[Trajectory]:
        """The environment's own expert, acting for real: every observation is the environment's answer."""
        return [self._demonstrate(task, sample) for sample, task in enumerate(tasks)]

    def _demonstrate(self, task: Task, sample: int) -> Trajectory:
        episode, context = self.env.start(task), self.speech.opening(task)
        turns: list[Turn] = []
        step = Step()
        for move in self.env.demonstrate(task, stream_of(*self.stream, task.id, sample), self.speech.dialect.tools):
            completion = self.speech.spell(move)
            step = episode.step(move.action)
            told = self.speech.say(step)
            turns.append(close_turn(self.env, context, completion, move.action, step, len(told)))
            context = context + completion.token_ids + told
        return Trajectory(task=task, sample=0, turns=tuple(turns), status="done", success=bool(step.success))


def answer_life(life: Life, future: Future[Step]) -> Asked:
    """Hand an episode its environment's answer, or the exception the environment raised."""
    error = future.exception()
    return life.throw(error) if error is not None else life.send(future.result())
