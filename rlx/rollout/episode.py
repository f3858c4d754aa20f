"""One agent's life: a coroutine that asks for completions and environment steps, straight down from start to end."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from rlx.types import (
    Action,
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
    state: int | None = None
    """Of the engine's automaton, in which each turn starts."""

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
                state=speech.state,
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
