"""One episode: a coroutine that asks for completions and environment steps, straight down from start to end."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from functools import cache, partial
from typing import Any, get_args

from rlx.algo.samplers import SamplerError
from rlx.base.fault import LostServiceError, fault
from rlx.base.limits import refuse
from rlx.base.stream import stream_of
from rlx.environment import Environment, Episode, Pace
from rlx.environment.agents import brief, seen_in
from rlx.environment.expert import demonstration
from rlx.environment.world import (
    NO_METRICS,
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
from rlx.protocol.drawn import Encode
from rlx.rollout.fork import add_parent_logprobs, branch_turn, completion_prefix, replayed_turns
from rlx.rollout.speech import Speech
from rlx.types import Action, Completion, Failed, Part, Request, Sampling, Start, Status, Step, Task, Trajectory, Turn

EpisodeDemand = Request | Callable[[], Any]
"""Thing that an episode waits for: the completion of a request, or the result of a call in its environment."""
EpisodeCoroutine = Generator[EpisodeDemand, Any, Trajectory]


RepeatCounts = Counter[tuple[str, int, int]]
"""Count of a task, sample and repeat in a step."""


def number_repeats(starts: Sequence[Start], counts: RepeatCounts) -> list[Start]:
    """Return the starts with their `repeat`, by the `counts` of earlier ones: a task may come twice in a step. Starts
    that are numbered again keep their numbers."""
    numbered = []
    for start in starts:
        key = (start.task.key, start.sample, start.repeat)
        numbered.append(replace(start, repeat=start.repeat + counts[key]))
        counts[key] += 1
    return numbered


def stream_of_turn(stream: tuple, start: Start, turn: int) -> int:
    """Return the key of the random stream of one completion."""
    return stream_of(*stream, start.task.key, start.sample, turn, *([start.repeat] if start.repeat else []))


def luck_of_turn(stream: tuple, start: Start, turn: int) -> int:
    """Return the number that keys chance in one turn of a sample: from 1, and below 2^32."""
    return 1 + stream_of("luck", *stream, start.task.key, start.sample, turn, start.repeat) % (2**32 - 1)


def turn_of(env: Environment, completion: Completion, action: Action, step: Step, luck: int, agent: str = "") -> Turn:
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
        agent=agent,
        rewards=step.rewards,
        outcomes=step.outcomes,
    )


@dataclass(frozen=True, kw_only=True)
class World:
    """An environment with its protocol (`Speech`) and its limit of turns."""

    env: Environment
    speech: Speech
    max_rounds: int | None
    """Turns that may pass without ending an episode; None: any number."""
    others: Mapping[str, Speech] = field(default_factory=dict)
    """Speech of the agents that other policies play, by agent."""

    def speech_of(self, agent: str) -> Speech:
        return self.others.get(agent, self.speech)

    def step(self, task: Task, episode: Episode, action: Action, num_turns: int, before: Step, turn: int) -> Step:
        """Take a step of the episode within the limit of turns, and check the environment's answer."""
        unanswered = NO_METRICS if num_turns else self.env.unanswered(task)
        step = step_within(episode, action, num_turns, self.max_rounds, before, unanswered)
        return lawful(self.env, step, before, turn)

    def close_turn(
        self,
        prompt: tuple[int, ...],
        completion: Completion,
        action: Action,
        step: Step,
        encode: Encode,
        luck: int = 0,
        agent: str = "",
    ) -> Turn:
        """Build the finished turn. A tool's observation is counted in the policy's tokens."""
        speech = self.speech_of(agent)
        observation_ids = (
            encode(speech.dialect.render(step.observation)) if step.observation and step.tool.num_calls else ()
        )
        tool = replace(step.tool, num_tokens=len(observation_ids))
        turn = turn_of(self.env, completion, action, replace(step, tool=tool), luck, agent)
        return replace(turn, prompt_ids=prompt, reply=speech.measure(completion, action))

    def remembering(self, agent: str = "") -> Encode:
        """Return a function of text to ids that encodes every text of an episode once."""
        return cache(lambda text: tuple(self.speech_of(agent).encode(text)))


def worlds_of(
    env: Environment,
    speech: Speech,
    max_rounds: int | None = None,
    others: Mapping[str, Speech] | None = None,
) -> dict[str, World]:
    """Return the worlds that tasks may be of, by `Task.env`; `max_rounds` overrides what each environment asks for.
    `others` are the speeches of agents that other policies play."""

    def world(name: str, part: Environment) -> World:
        if part.pace not in get_args(Pace):
            refuse("env.pace", part.pace, "inline, ticks or live")
        return World(
            env=part,
            speech=bind(env, speech, name),
            max_rounds=part.max_rounds if max_rounds is None else max_rounds,
            others={agent: bind(env, other, name) for agent, other in (others or {}).items() if agent in part.agents},
        )

    return {name: world(name, part) for name, part in parts_of(env).items()}


def bind(env: Environment, speech: Speech, part: str = "") -> Speech:
    """Return the speech of an environment, or of a part of it."""
    return replace(speech, dialect=dialect_of(env, speech.dialect, part), state=speech.drawn.states.get(part))


def refuse_replay(world: World, start: Start) -> None:
    """Refuse a start that repeats recorded actions where the environment may answer them differently."""
    if (start.prefix or start.fork) and not world.env.replayable:
        where = f"task {start.task.key} cannot go on from turn {len(replayed_turns(start))}"
        raise SamplerError(f"env: {type(world.env).__name__} does not replay: {where}")


class Scene:
    """State of an episode, and the work in its environment between completions: work for any thread, one
    at a time, each piece of which ends with the context of the next turn."""

    def __init__(self, world: World, start: Start, stack: ExitStack, stream: tuple = ()) -> None:
        """`stack` closes the episode; `stream` keys its chance."""
        self.world, self.start, self.stack, self.stream = world, start, stack, stream
        self.turns = list(replayed_turns(start))
        self.opening, self.step, self.num_passed = Step(), Step(), 0
        self.encoders = {agent: world.remembering(agent) for agent in world.env.agents}

    @property
    def agent(self) -> str:
        """Agent that acts next."""
        return self.step.next_agent

    @property
    def speech(self) -> Speech:
        return self.world.speech_of(self.agent)

    def seen(self) -> tuple[tuple[Part, ...], Sequence[Turn]]:
        """Return the next agent's view of the episode: the opening, and the agent's turns with their observations."""
        return seen_in(self.world.env, self.agent, self.opening.observation, self.turns)

    def begin(self) -> tuple[int, ...]:
        """Start the episode, repeat recorded actions, and return the first context."""
        self.episode = self.stack.enter_context(open_episode(self.world.env, self.start.task))
        self.opening = self.step = lawful(self.world.env, self.episode.opening())
        for index, turn in enumerate(self.turns):
            if turn.agent != self.agent:
                raise ValueError(f"the environment does not replay: turn {index} was another agent's")
            self.take(turn.action, turn.luck, index)
            if self.step.observation != turn.observation:
                raise ValueError(f"the environment does not replay: turn {index} was answered otherwise")
        forked = branch_turn(self.start)
        return self.context() if forked is None else forked.prompt_ids

    def act(self, prompt: tuple[int, ...], completion: Completion) -> tuple[int, ...]:
        """Take the step that a completion asks for; return the next context, empty after the last turn."""
        agent = self.agent
        action = only_legal(self.speech.hear(completion, self.seen()[1]), self.step.legal)
        is_chance = self.episode.has_chance and is_for_environment(action)
        luck = luck_of_turn(self.stream, self.start, len(self.turns)) if is_chance else 0
        self.take(action, luck, len(self.turns))
        encode = self.encoders[agent]
        self.turns.append(self.world.close_turn(prompt, completion, action, self.step, encode, luck, agent))
        return () if self.step.done else self.context()

    def take(self, action: Action, luck: int, index: int) -> None:
        """Take the step of the turn at `index`."""
        give_luck(self.episode, luck)
        self.step = self.world.step(self.start.task, self.episode, action, self.num_passed, self.step, index + 1)
        self.num_passed += is_for_environment(action)

    def context(self) -> tuple[int, ...]:
        """Return the context of the next turn."""
        opening, past = self.seen()
        task = brief(self.world.env, self.start.task, self.agent)
        return self.speech.context(task, opening, past, self.encoders[self.agent], self.step.legal)

    def ask(self, context: tuple[int, ...], sampling: Sampling, session: int, group: int | None) -> Request:
        """Build the request for the next turn. An agent has a session of its own, the first agent `session`."""
        start, speech = self.start, self.speech
        is_first = len(self.turns) == len(replayed_turns(start))
        request = Request(
            session=session + self.world.env.agents.index(self.agent),
            policy=self.agent if self.agent in self.world.others else "",
            stream=stream_of_turn(self.stream, start, len(self.turns)),
            prompt_ids=context,
            completion_prefix=completion_prefix(start) if is_first else (),
            group=group,
            watch=start.watch,
            entropy_of=start.entropy_of,
            sampling=(start.first or sampling) if is_first else sampling,
            stops=speech.dialect.stops,
            state=speech.begins(self.step.legal),
            thinking=speech.thinking,
        )
        return speech.put(request, self.seen()[1])

    def end(self, status: Status, success: bool = False, error: str = "") -> Trajectory:
        """Build the trajectory of the episode, which has ended."""
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


class RequestFailedError(RuntimeError):
    """Nobody could complete a request; the message says why."""


def play_episode(
    world: World, sampling: Sampling, start: Start, stream: tuple, session: int, group: int | None = None
) -> EpisodeCoroutine:
    """Play one episode from start to end. It asks for its beginning first. An exception of the environment ends it as
    `error`; nothing else is lost. It is closed however it ends, when nobody asks it to go on too."""
    stack = ExitStack()
    scene, sampling = Scene(world, start, stack, stream), start.sampling or sampling
    try:
        with stack:
            context: tuple[int, ...] = yield scene.begin
            first = len(scene.turns)
            while len(context) < sampling.max_context:
                answer: Completion | Failed = yield scene.ask(context, sampling, session, group)
                if isinstance(answer, Failed):
                    raise RequestFailedError(answer.reason)
                completion = add_parent_logprobs(start, answer) if len(scene.turns) == first else answer
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
    """Play the environment's expert on a task: every observation is the environment's answer."""
    turns: list[Turn] = []
    encode = world.remembering()
    opening, moves = demonstration(world.env, world.speech.dialect, task, seed)
    agent = opening.next_agent

    def context() -> tuple[int, ...]:
        observed, past = seen_in(world.env, agent, opening.observation, turns)
        return world.speech.context(brief(world.env, task, agent), observed, past, encode, expert_move.legal)

    for expert_move in moves:
        before, past = context(), seen_in(world.env, agent, opening.observation, turns)[1]
        summary = world.speech.write_summary(past)
        if summary is not None:
            action = world.speech.hear(summary, past)
            turns.append(world.close_turn(before, summary, action, Step(), encode, agent=agent))
            before = context()
        completion = world.speech.say(expert_move.move, expert_move.legal)
        turns.append(
            world.close_turn(before, completion, expert_move.move.action, expert_move.step, encode, agent=agent)
        )
        agent = expert_move.step.next_agent
    success = bool(moves and moves[-1].step.success)
    first_observation = opening.observation
    return Trajectory(
        task=task, sample=0, turns=tuple(turns), status="done", success=success, opening=first_observation
    )
