"""One agent's life: a coroutine that asks for completions and environment steps, straight down from start to end."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Generator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import cache, partial
from typing import Any, get_args

from rlx.algo.samplers import SamplerError
from rlx.environment import Environment, Episode, Pace
from rlx.expert import demonstration
from rlx.fault import LostServiceError, fault
from rlx.limits import refuse
from rlx.protocol.drawn import Encode
from rlx.rollout.fork import given, joined, left, replayed
from rlx.rollout.speech import Speech
from rlx.stream import stream_of
from rlx.types import Action, Completion, Request, Sampling, Start, Status, Step, Task, Trajectory, Turn
from rlx.world import (
    cost_of,
    dialect_of,
    give_luck,
    is_for_environment,
    lawful,
    only_legal,
    open_episode,
    parts_of,
    step_within,
)

Asked = Request | Callable[[], Any]
"""Thing that an episode waits for: a completion of a request, or what comes of work in its environment."""
Life = Generator[Asked, Any, Trajectory]


Seen = Counter[tuple[str, int, int]]
"""Count of a task, sample and repeat in a step."""


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


def luck_of_turn(stream: tuple, start: Start, turn: int) -> int:
    """Return the number that keys chance in one turn of a sample: from 1, and below 2^32."""
    return 1 + stream_of("luck", *stream, start.task.key, start.sample, turn, start.repeat) % (2**32 - 1)


def turn_of(env: Environment, completion: Completion, action: Action, step: Step, luck: int) -> Turn:
    """Return a turn that the environment has answered; its context is for the caller to add."""
    return Turn(
        prompt_ids=(),
        completion=completion,
        action=action,
        observation=step.observation,
        reward=step.reward - cost_of(env, step.tool),
        tool=step.tool,
        metrics=step.metrics,
        luck=luck,
        invalid=step.invalid,
    )


@dataclass(frozen=True, kw_only=True)
class World:
    """One environment as a player meets it: how one speaks there, and how many turns may pass."""

    env: Environment
    speech: Speech
    max_rounds: int | None
    """Turns that may pass without ending an episode; None: any number."""

    def step(self, episode: Episode, action: Action, num_turns: int, before: Step) -> Step:
        return lawful(self.env, step_within(episode, action, num_turns, self.max_rounds, before))

    def close_turn(
        self,
        prompt: tuple[int, ...],
        completion: Completion,
        action: Action,
        step: Step,
        encode: Encode,
        luck: int = 0,
    ) -> Turn:
        """The finished turn. What a tool said is counted in the policy's tokens."""
        told = encode(self.speech.dialect.render(step.observation)) if step.observation and step.tool.num_calls else ()
        tool = replace(step.tool, num_tokens=len(told))
        turn = turn_of(self.env, completion, action, replace(step, tool=tool), luck)
        return replace(turn, prompt_ids=prompt, reply=self.speech.measure(completion, action))

    def remembering(self) -> Encode:
        """Text to ids; every text of an episode is encoded once."""
        return cache(lambda text: tuple(self.speech.encode(text)))


def worlds_of(env: Environment, speech: Speech, max_rounds: int | None = None) -> dict[str, World]:
    """The worlds that tasks may be of, by `Task.env`; `max_rounds` overrides what each environment asks for."""

    def world(name: str, part: Environment) -> World:
        if part.pace not in get_args(Pace):
            refuse("env.pace", part.pace, "inline, ticks or live")
        rounds = part.max_rounds if max_rounds is None else max_rounds
        return World(env=part, speech=bind(env, speech, name), max_rounds=rounds)

    return {name: world(name, part) for name, part in parts_of(env).items()}


def bind(env: Environment, speech: Speech, part: str = "") -> Speech:
    """Return the speech of an environment, or of a part of it."""
    return replace(speech, dialect=dialect_of(env, speech.dialect, part), state=speech.drawn.states.get(part))


def refuse_replay(world: World, start: Start) -> None:
    """A start that repeats recorded actions needs an environment that answers them alike."""
    if (start.prefix or start.fork) and not world.env.replayable:
        where = f"task {start.task.key} cannot go on from turn {len(replayed(start))}"
        raise SamplerError(f"env: {type(world.env).__name__} does not replay: {where}")


class Scene:
    """State of an episode, and the work in its environment between completions: work for any thread, one
    at a time, each piece of which ends with the context of the next turn."""

    def __init__(self, world: World, start: Start, stack: ExitStack, stream: tuple = ()) -> None:
        """`stack` closes the episode; `stream` keys its chance."""
        self.world, self.start, self.stack, self.stream = world, start, stack, stream
        self.turns = list(replayed(start))
        self.opening, self.step, self.num_passed = Step(), Step(), 0
        self.encode = world.remembering()

    def begin(self) -> tuple[int, ...]:
        """Start, and repeat recorded actions."""
        self.episode = self.stack.enter_context(open_episode(self.world.env, self.start.task))
        self.opening = self.step = lawful(self.world.env, self.episode.opening())
        for index, turn in enumerate(self.turns):
            self.take(turn.action, turn.luck)
            if self.step.observation != turn.observation:
                raise ValueError(f"the environment does not replay: turn {index} was answered otherwise")
        forked = left(self.start)
        return self.context() if forked is None else forked.prompt_ids

    def act(self, prompt: tuple[int, ...], completion: Completion) -> tuple[int, ...]:
        """Do what a completion means."""
        action = only_legal(self.world.speech.hear(completion, self.turns), self.step.legal)
        is_chance = self.episode.has_chance and is_for_environment(action)
        luck = luck_of_turn(self.stream, self.start, len(self.turns)) if is_chance else 0
        self.take(action, luck)
        self.turns.append(self.world.close_turn(prompt, completion, action, self.step, self.encode, luck))
        return () if self.step.done else self.context()

    def take(self, action: Action, luck: int) -> None:
        give_luck(self.episode, luck)
        self.step = self.world.step(self.episode, action, self.num_passed, self.step)
        self.num_passed += is_for_environment(action)

    def context(self) -> tuple[int, ...]:
        speech, seen = self.world.speech, self.opening.observation
        return speech.context(self.start.task, seen, self.turns, self.encode, self.step.legal)

    def end(self, status: Status, success: bool = False, error: str = "") -> Trajectory:
        return Trajectory(
            task=self.start.task,
            sample=self.start.sample,
            turns=tuple(self.turns),
            status=status,
            success=success,
            error=error,
            fork=self.start.fork,
            opening=self.opening.observation,
        )


def play_episode(
    world: World, sampling: Sampling, start: Start, stream: tuple, session: int, group: int | None = None
) -> Life:
    """One episode from start to end. It asks for its beginning first. An exception of the environment ends it as
    `error`; nothing else is lost. It is closed however it ends, when nobody asks it to go on too."""
    stack = ExitStack()
    scene, sampling = Scene(world, start, stack, stream), start.sampling or sampling
    try:
        with stack:
            context: tuple[int, ...] = yield scene.begin
            first = len(scene.turns)
            while len(context) < sampling.max_context:
                is_first = len(scene.turns) == first
                request = Request(
                    session=session,
                    stream=stream_of_turn(stream, start, len(scene.turns)),
                    prompt_ids=context,
                    given=given(start) if is_first else (),
                    group=group,
                    watch=start.watch,
                    entropy_of=start.entropy_of,
                    sampling=(start.first or sampling) if is_first else sampling,
                    stops=world.speech.dialect.stops,
                    state=world.speech.begins(scene.step.legal),
                    thinking=world.speech.thinking,
                )
                completion: Completion = yield world.speech.put(request, scene.turns)
                completion = joined(start, completion) if is_first else completion
                context = yield partial(scene.act, context, completion)
                if scene.step.done:
                    return scene.end("truncated" if scene.step.truncated else "done", success=bool(scene.step.success))
                if start.max_turns is not None and len(scene.turns) - first >= start.max_turns:
                    return scene.end("truncated")
            return scene.end("context")
    except LostServiceError:
        raise
    except (Exception, SystemExit) as error:  # an environment's exit() is no end of the run
        return scene.end("error", error=fault(error))


def demonstrate_episode(world: World, task: Task, seed: int) -> Trajectory:
    """The environment's own expert, acting for real: every observation is the environment's answer."""
    turns: list[Turn] = []
    encode = world.remembering()
    opening, moves = demonstration(world.env, world.speech.dialect, task, seed)
    for shown in moves:
        context = world.speech.context(task, opening.observation, turns, encode, shown.legal)
        summary = world.speech.retell(turns)
        if summary is not None:
            turns.append(world.close_turn(context, summary, world.speech.hear(summary, turns), Step(), encode))
            context = world.speech.context(task, opening.observation, turns, encode, shown.legal)
        said = world.speech.say(shown.move, shown.legal)
        turns.append(world.close_turn(context, said, shown.move.action, shown.step, encode))
    success = bool(moves and moves[-1].step.success)
    seen = opening.observation
    return Trajectory(task=task, sample=0, turns=tuple(turns), status="done", success=success, opening=seen)
