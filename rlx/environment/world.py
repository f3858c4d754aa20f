"""Rules for every environment: components, valid steps, and the limit of turns.

An environment of several components (rlx.env.mixed.mixture) has each by a name, perhaps with a protocol of its own. A
task says which component it is of, and whatever is asked about a task is asked of that one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import cache
from math import inf, isfinite
from types import MappingProxyType, MethodType
from typing import Any

from rlx.base.declared import public
from rlx.base.limits import MistakeError
from rlx.environment import Environment, Episode
from rlx.environment.dialect import Dialect
from rlx.types import Action, Move, Step, Task, Text, ToolUse, Turn, Verb


def parts_of(env: Environment) -> dict[str, Environment]:
    """Every environment that a task may be of, by `Task.env`."""
    return {name: portion.env for name, portion in env.components.items()} or {"": env}


def trained_parts(env: Environment) -> dict[str, Environment]:
    """Return the parts that have a share of the tasks of training."""
    return {name: portion.env for name, portion in env.components.items() if portion.weight} or {"": env}


def part_of(env: Environment, task: Task) -> Environment:
    """The environment a task is of."""
    if not task.env and not env.components:
        return env
    parts = parts_of(env)
    if task.env not in parts:
        raise ValueError(f"env: task {task.id!r:.60} is of {task.env!r:.60}, which is none of {', '.join(parts)!r}")
    return parts[task.env]


def dialect_of(env: Environment, protocol: Dialect, part: str = "") -> Dialect:
    """Return the protocol of an environment or of one of its components; a component may name another protocol."""
    portion = env.components.get(part)
    part_protocol = None if portion is None else portion.protocol
    inner = parts_of(env)[part]
    return (part_protocol or protocol).bind(verbs(inner, "tools", inner.tools), verbs(inner, "actions", inner.actions))


def verbs(env: Environment, name: str, declared_verbs: object) -> tuple[Verb, ...]:
    """Return the environment's tools or actions; MistakeError where they are anything but verbs."""
    if not isinstance(declared_verbs, Sequence) or not all(isinstance(verb, Verb) for verb in declared_verbs):
        expected = f"{name} = (Verb(name='ask', description='ask for a price', argument='thing'),)"
        raise MistakeError(
            f"env: {name} of {type(env).__name__} is {declared_verbs!r:.80}: expected a tuple, as in {expected}"
        )
    return tuple(declared_verbs)


def reward_range_of(env: Environment, max_rounds: int | None = None) -> tuple[float, float]:
    """Return the least and largest possible reward of an episode, of any part; infinite where nothing says them. More
    turns than the environment asks for may cost more than it says."""
    ranges = [part.reward_range for part in parts_of(env).values()]
    limits = [part.max_rounds for part in parts_of(env).values()]
    is_longer = max_rounds is not None and any(limit is not None and limit < max_rounds for limit in limits)
    return -inf if is_longer else min(low for low, _ in ranges), max(high for _, high in ranges)


def is_reproducible(env: Environment) -> bool:
    """Tell whether the same seed gives the same episodes: no part has the pace `live`."""
    return all(part.pace != "live" for part in parts_of(env).values())


def cost_of(env: Environment, tool: ToolUse) -> float:
    """Return the cost of a turn's tool use; 0 where the environment sets no price."""
    cost = env.tool_cost(tool)
    if not is_finite(cost):
        raise MistakeError(f"env: tool_cost of {type(env).__name__} is {cost!r:.60}: expected a finite number")
    return float(cost)


def moves_of(env: Environment, task: Task, seed: int, tools: tuple[str, ...]) -> Iterable[Move]:
    """An expert's moves; ValueError where there is none, or none that does without other tools."""
    return map(lawful_move, env.demonstrate(task, seed, tools))


def lawful_move(move: Move) -> Move:
    if not isinstance(move, Move):
        raise ValueError(f"env: an expert's move is {move!r:.80}: expected Move(thought=…, action=Action(…))")
    return move


def data_version_of(env: Environment) -> str:
    """Join the data versions of all components; empty where they read no files."""
    return " ".join(filter(None, (part.data_version() for part in parts_of(env).values())))


def give_luck(episode: Episode, luck: int) -> None:
    """Give an episode the number that keys chance in its next step; 0 is none."""
    if luck and episode.has_chance:
        episode.set_luck(luck)


NOTHING_SEEN = Step()
NO_METRICS: Mapping[str, float] = MappingProxyType({})
"""Before the first action of an episode without an opening."""


def lawful(env: Environment, step: Step, before: Step | None = None, turn: int = 0) -> Step:
    """Check a step and return it; ValueError where no player could go on from it.

    It is the answer to turn number `turn` (from 1), whose agent the step `before` names; without both, the opening.
    """
    wrong = wrong_values(step)
    if not wrong and (before is None or is_of_agents(step, before)):
        wrong = wrong_agents(env, step, before)
    if not wrong and step.legal is not None:
        wrong = wrong_legal(env, step, step.legal)
    if wrong:
        place = f"turn {turn}" if turn else "the opening"
        raise ValueError(f"env: {place} of {type(env).__name__} {wrong}")
    return step


def wrong_values(step: Step) -> str:
    """Describe a step that is none, an observation that is no text, or a number that is not finite."""
    if not isinstance(step, Step):
        return f"is {step!r:.60}: expected Step(observation=(Text(…),), …)"
    observation = step.observation
    if not is_texts(observation):
        return f"has the observation {observation!r:.60}: expected a tuple of Text, as in (Text('warm'),)"
    if not is_finite(step.reward):
        return f"has the reward {step.reward!r:.60}: expected a finite number"
    if step.metrics and not all(map(is_finite, step.metrics.values())):
        return f"has the metrics {dict(step.metrics)!r:.80}: expected finite numbers"
    return ""


def is_texts(observation: object) -> bool:
    """Tell whether a value is a tuple of texts. A loop, as a game is stepped half a million times a second."""
    if not isinstance(observation, tuple):
        return False
    for part in observation:  # noqa: SIM110
        if not isinstance(part, Text) or not isinstance(part.text, str):
            return False
    return True


def is_of_agents(step: Step, before: Step) -> bool:
    """Tell whether a step says of agents what was not checked in the step before: another name, rewards, outcomes."""
    return bool(step.next_agent != before.next_agent or step.rewards or step.outcomes)


def wrong_agents(env: Environment, step: Step, before: Step | None) -> str:
    """Describe names that are no agent's, and a reward in the wrong place."""
    if not step.done and step.next_agent not in env.agents:
        return wrong_next_agent(env, step.next_agent)
    if before is not None and before.next_agent in step.rewards:
        problem = f"has the rewards {dict(step.rewards)!r:.80}, and {before.next_agent!r:.60} itself acted"
        return f"{problem}: give its reward as Step(reward=…), and in `rewards` those of the other agents"
    if step.rewards and not all(name in env.agents and is_finite(reward) for name, reward in step.rewards.items()):
        return f"has the rewards {dict(step.rewards)!r:.80}: expected finite numbers of its agents"
    if step.outcomes and not all(
        name in env.agents and isinstance(outcome, bool) for name, outcome in step.outcomes.items()
    ):
        return f"has the outcomes {dict(step.outcomes)!r:.80}: expected true or false of its agents"
    return ""


def wrong_next_agent(env: Environment, name: str) -> str:
    """Describe a next agent that the environment does not have, and what to write instead."""
    problem = f"names {name!r:.60} as the next agent" if name else "names no next agent"
    if env.agents == ("",):
        return f"{problem}, and {type(env).__name__} names no agents: leave next_agent out, or define `agents`"
    return f"{problem}: expected Step(next_agent=…) with {' or '.join(map(repr, env.agents))}"


def wrong_legal(env: Environment, step: Step, legal: tuple[str, ...]) -> str:
    """Describe legal actions that are not declared, or that leave nothing to do."""
    names = [verb.name for verb in env.actions]
    for name in legal:
        if name not in names:
            return f"calls {name!r:.60} legal, and its actions are {', '.join(names) or 'none'}"
    if not legal and not step.done and not env.tools:
        return "calls nothing legal and goes on: end the episode, or give None for all actions"
    sets = legal_sets(env.actions)
    if sets and not step.done and frozenset(legal) not in sets:
        problem = f"calls {', '.join(legal) or 'nothing'} legal"
        return f"{problem}, which its actions are in no situation; name one in their `when`"
    return ""


def legal_sets(actions: Sequence[Verb]) -> tuple[frozenset[str], ...]:
    """Return one set of legal actions for each situation that the actions name; none where they name none. The
    legal actions of a step must be one of these sets, so that a protocol can build an automaton state for each set."""
    situations = dict.fromkeys(situation for verb in actions for situation in verb.when)
    sets = (
        frozenset(verb.name for verb in actions if not verb.when or situation in verb.when) for situation in situations
    )
    return tuple(dict.fromkeys(sets))


def is_finite(number: Any) -> bool:
    """Tell whether a float can hold the number, and it is not nan."""
    try:
        return isfinite(number)
    except (TypeError, OverflowError):
        return False


def environment_turns(turns: Sequence[Turn]) -> list[int]:
    """Return the indices of the turns that reach the environment. They alone count against a limit of turns."""
    return [index for index, turn in enumerate(turns) if is_for_environment(turn.action)]


def is_for_environment(action: Action) -> bool:
    """Tell whether an action is no summary, which is for the policy alone."""
    return action.kind != "summary"


def step_within(
    episode: Episode,
    action: Action,
    num_turns: int,
    max_rounds: int | None,
    before: Step = NOTHING_SEEN,
    unanswered: Mapping[str, float] = NO_METRICS,
) -> Step:
    """Take a step of an episode in which `num_turns` have passed. The first of them has the metrics `unanswered`, to
    which those of later turns are added.

    Where no more may pass it is the last: a call or an invalid turn ends nothing, so it is not made; an act or an
    answer that does not end the episode is cut off. A summary is no step: what was legal after the step `before` still
    is.
    """
    if not is_for_environment(action):
        return Step(legal=before.legal, next_agent=before.next_agent)
    is_last = max_rounds is not None and num_turns >= max_rounds
    step = last_step(episode, action) if is_last else episode.step(action)
    if num_turns or not unanswered or not isinstance(step, Step):
        return step
    return replace(step, metrics={**unanswered, **step.metrics})


def last_step(episode: Episode, action: Action) -> Step:
    """Take a step that ends the episode."""
    if action.kind in ("call", "invalid"):
        return Step(done=True, truncated=True, success=False)
    step = episode.step(action)
    has_ended = not isinstance(step, Step) or step.done  # what is no step, `lawful` refuses
    return step if has_ended else replace(step, done=True, truncated=True, success=False)


def only_legal(action: Action, legal: tuple[str, ...] | None) -> Action:
    """Return the action, or an invalid one where it is declared and not legal now."""
    if legal is None:
        return action
    name = {"act": action.name, "answer": "answer"}.get(action.kind)
    if name is None or name in legal:
        return action
    return Action(kind="invalid", text=f"{name} is not possible now; possible: {', '.join(legal)}")


def start_episode(env: Environment, task: Task) -> Episode:
    """Return a fresh episode of the task; MistakeError where it is none, or hides one of an episode's methods."""
    episode = env.start(task)
    if not isinstance(episode, Episode):
        problem = f"env: start of {type(env).__name__} returns {type(episode).__name__:.60}"
        raise MistakeError(f"{problem}: expected an rlx.environment.Episode, as in class MyEpisode(Episode)")
    hidden = hidden_method(episode)
    if hidden:
        problem = f"env: {type(episode).__name__} has its own attribute {hidden}"
        raise MistakeError(f"{problem}, a method of every Episode: rename it")
    return episode


def hidden_method(episode: Episode) -> str:
    """Return the first method that an attribute of the episode hides. `vars` is called only where one may be hidden, as
    CPython reads the attributes of an object more slowly after it."""
    for name, method in methods_of(type(episode)):
        attribute = getattr(episode, name)
        is_own = isinstance(attribute, MethodType) and attribute.__func__ is method
        if not is_own and name in vars(episode):
            return name
    return ""


@cache
def methods_of(kind: type[Episode]) -> tuple[tuple[str, Any], ...]:
    """Return the methods of every episode by their names, as a class has them."""
    names = sorted(name for name in public(Episode) if callable(vars(Episode)[name]))
    return tuple((name, getattr(kind, name)) for name in names)


@contextmanager
def open_episode(env: Environment, task: Task) -> Iterator[Episode]:
    """Open a fresh episode, and close it however the block ends."""
    episode = start_episode(env, task)
    try:
        yield episode
    finally:
        episode.close()
