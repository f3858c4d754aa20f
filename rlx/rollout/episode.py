"""One agent's life: a coroutine that asks for completions and environment steps, straight down from start to end."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from rlx.rollout.fork import given, joined, left, replayed
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
from rlx.world import cost_of, dialect_of, open_episode, parts_of, rounds_of

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
        key = (start.task.key, start.sample, start.repeat)
        told.append(replace(start, repeat=start.repeat + seen[key]))
        seen[key] += 1
    return told


def stream_of_turn(stream: tuple, start: Start, turn: int) -> int:
    """The random stream of one completion."""
    return stream_of(*stream, start.task.key, start.sample, turn, *([start.repeat] if start.repeat else []))


def hear(dialect: Dialect, decode: Callable[[Sequence[int]], str], completion: Completion) -> Action:
    """What a completion meant; an end-of-sequence token is no part of what was said."""
    ids = completion.token_ids[:-1] if completion.stop == "eos" else completion.token_ids
    return dialect.parse(decode(ids), completion.stop)


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
        return hear(self.dialect, self.decode, completion)

    def say(self, step: Step) -> tuple[int, ...]:
        return tuple(self.encode(self.dialect.render(step.observation))) if step.observation else ()

    def spell(self, move: Move) -> Completion:
        ids = tuple(self.encode(self.dialect.write(move)))
        return Completion(token_ids=ids, logprobs=(0.0,) * len(ids), stop="stop")


@dataclass(frozen=True, kw_only=True)
class World:
    """One environment as a player meets it: how one speaks there, and how many turns may pass."""

    env: Environment
    speech: Speech
    max_rounds: int | None
    """Turns that may pass without ending an episode; None: any number."""

    def step(self, episode: Episode, action: Action, num_turns: int) -> Step:
        return step_within(episode, action, num_turns, self.max_rounds)

    def close_turn(
        self, prompt: tuple[int, ...], completion: Completion, action: Action, step: Step, told: int
    ) -> Turn:
        """The finished turn; `told` is how many tokens the observation became."""
        tool = replace(step.tool, num_tokens=told if step.tool.num_calls else 0)
        return Turn(
            prompt_ids=prompt,
            completion=completion,
            action=action,
            observation=step.observation,
            reward=step.reward - cost_of(self.env, tool),
            tool=tool,
            metrics=step.metrics,
        )


def worlds_of(env: Environment, speech: Speech, max_rounds: int | None = None) -> dict[str, World]:
    """The worlds that tasks may be of, by `Task.env`; `max_rounds` overrides what each environment asks for."""

    def world(name: str, part: Environment) -> World:
        rounds = rounds_of(part) if max_rounds is None else max_rounds
        return World(env=part, speech=replace(speech, dialect=dialect_of(env, speech.dialect, name)), max_rounds=rounds)

    return {name: world(name, part) for name, part in parts_of(env).items()}


def step_within(episode: Episode, action: Action, num_turns: int, max_rounds: int | None) -> Step:
    """A step of an episode in which `num_turns` have passed. Where no more may pass it is the last: a call or an
    invalid turn ends nothing, so it is not made; an act or an answer that does not end the episode is cut off."""
    if max_rounds is None or num_turns < max_rounds:
        return episode.step(action)
    if action.kind in ("call", "invalid"):
        return Step(done=True, truncated=True, success=False)
    step = episode.step(action)
    return step if step.done else replace(step, done=True, truncated=True, success=False)


def only_legal(action: Action, legal: tuple[str, ...] | None) -> Action:
    """The action, unless it is one that may not come now."""
    if action.kind != "act" or legal is None or action.name in legal:
        return action
    return Action(kind="invalid", text=f"{action.name} is not possible now; possible: {', '.join(legal)}")


def replay_prefix(
    episode: Episode, prefix: Sequence[Turn], speech: Speech, opening: tuple[int, ...]
) -> tuple[int, ...]:
    """Repeat recorded actions in a fresh episode; the context the next turn starts from."""
    context = opening
    for turn in prefix:
        context = turn.prompt_ids + turn.completion.token_ids + speech.say(episode.step(turn.action))
    return context


def play_episode(
    world: World, sampling: Sampling, start: Start, stream: tuple, session: int, group: int | None = None
) -> Life:
    """One episode from start to end. An exception of the environment ends it as `error`; nothing else is lost. It is
    closed however it ends, when nobody asks it to go on too."""
    turns, speech = list(replayed(start)), world.speech
    first = len(turns)

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
        with open_episode(world.env, start.task) as episode:
            context = replay_prefix(episode, turns, speech, speech.opening(start.task))
            forked = left(start)
            context = context if forked is None else forked.prompt_ids
            legal: tuple[str, ...] | None = None
            while len(context) < sampling.max_context:
                completion: Completion = yield Request(
                    session=session,
                    stream=stream_of_turn(stream, start, len(turns)),
                    prompt_ids=context,
                    given=given(start) if len(turns) == first else (),
                    group=group,
                    watch=start.watch,
                    sampling=sampling,
                    stops=speech.dialect.stops,
                    state=speech.state,
                )
                completion = joined(start, completion) if len(turns) == first else completion
                action = only_legal(speech.hear(completion), legal)
                step: Step = yield partial(world.step, episode, action, len(turns))
                told = speech.say(step)
                turns.append(world.close_turn(context, completion, action, step, len(told)))
                if step.done:
                    return end("truncated" if step.truncated else "done", success=bool(step.success))
                context, legal = context + completion.token_ids + told, step.legal
            return end("truncated")
    except Exception as error:
        return end("error", error=f"{type(error).__name__}: {error}")
