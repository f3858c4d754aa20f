"""Episodes: each is a coroutine that asks for completions and for environment steps, and many run at once.

`play_episode` reads as one agent's life, straight down. `Rollout.play` lets all of them live together: completions come
from the engine's ticks, environment steps from a pool of threads, so tools run beside decoding. A step's answer is
admitted exactly `tool_ticks` ticks after it was asked for, early or late, so the schedule never depends on the clock.
"""

from __future__ import annotations

import hashlib
from collections import Counter, deque
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import Any

from rlx.rollout.engine import Engine
from rlx.types import (
    Action,
    Automaton,
    Completion,
    Dialect,
    Environment,
    Episode,
    Move,
    Request,
    Sampling,
    Start,
    Status,
    Step,
    Task,
    Trajectory,
    Turn,
)

Asked = Request | Callable[[], Step]
"""What an episode waits for: a completion of a request, or the result of an environment step."""
Life = Generator[Asked, Any, Trajectory]


def stream_of(*key: object) -> int:
    """A 64-bit number that names a random stream by what it is for, e.g. (seed, step, task, sample, turn)."""
    text = "\x1f".join(str(part) for part in key)
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "big")


Seen = Counter[tuple[str, int, int]]
"""How often a task, sample and repeat was played in a step."""


def tell_apart(starts: Sequence[Start], seen: Seen) -> list[Start]:
    """The starts, each with its `repeat` among those `seen`: a task may come twice in a step. Counting again what was
    counted changes nothing."""
    told = []
    for start in starts:
        key = (start.task.id, start.sample, start.repeat)
        told.append(replace(start, repeat=start.repeat + seen[key]))
        seen[key] += 1
    return told


def stream_of_turn(stream: tuple, start: Start, turn: int) -> int:
    """The random stream of one completion."""
    return stream_of(*stream, start.task.id, start.sample, turn, *([start.repeat] if start.repeat else []))


@dataclass(frozen=True, kw_only=True)
class Speech:
    """How text and tokens meet: a tokenizer under a protocol. What was sampled is never encoded again."""

    dialect: Dialect
    encode: Callable[[str], list[int]]
    """Text to ids, adding nothing."""
    decode: Callable[[Sequence[int]], str]
    open: Callable[[str], list[int]]
    """A first prompt to ids, through the chat template where the model has one."""
    automaton: Automaton | None = None

    def opening(self, task: Task) -> tuple[int, ...]:
        return tuple(self.open(self.dialect.open(task)))

    def hear(self, completion: Completion) -> Action:
        return self.dialect.parse(self.decode(completion.token_ids))

    def say(self, step: Step) -> tuple[int, ...]:
        return tuple(self.encode(self.dialect.render(step.observation))) if step.observation else ()

    def spell(self, move: Move) -> Completion:
        ids = tuple(self.encode(self.dialect.write(move)))
        return Completion(token_ids=ids, logprobs=(0.0,) * len(ids), stop="stop")


def close_turn(
    env: Environment, prompt: tuple[int, ...], completion: Completion, action: Action, step: Step, told: int
) -> Turn:
    """The finished turn; `told` is how many tokens the observation became."""
    tool = replace(step.tool, num_tokens=told if step.tool.num_calls else 0)
    return Turn(
        prompt_ids=prompt,
        completion=completion,
        action=action,
        observation=step.observation,
        reward=step.reward - env.cost(tool),
        tool=tool,
    )


def replay_prefix(
    episode: Episode, prefix: Sequence[Turn], speech: Speech, opening: tuple[int, ...]
) -> tuple[int, ...]:
    """Repeat recorded actions in a fresh episode; the context the next turn starts from."""
    context = opening
    for turn in prefix:
        context = turn.prompt_ids + turn.completion.token_ids + speech.say(episode.step(turn.action))
    return context


def play_episode(
    env: Environment, speech: Speech, sampling: Sampling, start: Start, stream: tuple, session: int
) -> Life:
    """One episode from start to end. An exception of the environment ends it as `error`; nothing else is lost."""
    turns = list(start.prefix)

    def end(status: Status, success: bool = False, error: str = "") -> Trajectory:
        return Trajectory(
            task=start.task,
            sample=start.sample,
            turns=tuple(turns),
            status=status,
            success=success,
            error=error,
            fork=start.fork,
        )

    try:
        episode = env.start(start.task)
        context = replay_prefix(episode, start.prefix, speech, speech.opening(start.task))
        while len(context) < sampling.max_context:
            completion: Completion = yield Request(
                session=session,
                stream=stream_of_turn(stream, start, len(turns)),
                prompt_ids=context,
                sampling=sampling,
                stops=speech.dialect.stops,
                automaton=speech.automaton,
            )
            action = speech.hear(completion)
            step: Step = yield lambda action=action: episode.step(action)  # type: ignore[misc]
            told = speech.say(step)
            turns.append(close_turn(env, context, completion, action, step, len(told)))
            if step.done:
                return end("truncated" if step.truncated else "done", success=bool(step.success))
            context = context + completion.token_ids + told
        return end("truncated")
    except Exception as error:
        return end("error", error=f"{type(error).__name__}: {error}")


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
    progress: Callable[[int], None] = field(default=lambda done: None)
    """Told of every finished episode."""
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
                self.progress(1)
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
