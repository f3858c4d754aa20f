"""Read the capabilities of an environment (`CapableEnvironment`), with defaults for those that it lacks.

An environment of several parts (rlx.env.mixed.mixture) has `parts`: by name, each an environment and perhaps a protocol
of its own. A task says which part it is of, and whatever is asked about a task is asked of that part.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from math import inf, isfinite
from typing import Any, Literal, Protocol, get_args

from rlx.limits import MistakeError, refuse
from rlx.types import Action, Dialect, Environment, Episode, Group, Metrics, Move, Step, Task, Text, ToolUse, Turn, Verb

AnswerForm = Literal["line", "program", "turn"]
"""Form of an environment's answers: a line or a few words, a program, or a whole turn that the environment itself
parses."""

Pace = Literal["inline", "ticks", "live"]
"""Time at which an environment's steps are taken: at once, after a fixed number of ticks, or when they are ready, which
no seed repeats."""


class CapableEnvironment(Environment, Protocol):
    """Optional members of an environment."""

    @property
    def max_rounds(self) -> int | None:
        """Turns that may pass without ending an episode; one more that does not end it is its last. None: any number.
        The player counts them, so that an evaluation may give others."""
        ...

    @property
    def tools(self) -> tuple[Verb, ...]:
        """Tools that the environment lends: a `call` names one."""
        ...

    @property
    def actions(self) -> tuple[Verb, ...]:
        """Actions that the environment declares: an `act` names one. Beside them, an answer is possible only if one is
        named `answer`."""
        ...

    @property
    def replayable(self) -> bool:
        """The same actions always give the same steps; forks and replays need it."""
        ...

    @property
    def pace(self) -> Pace: ...

    @property
    def answer_form(self) -> AnswerForm:
        """Form of its answers; a protocol is chosen by it."""
        ...

    @property
    def discount(self) -> float:
        """Discount of a turn, for algorithms that credit turns (GEM, Table 3: 0.9 for games, else 1)."""
        ...

    @property
    def reward_range(self) -> tuple[float, float]:
        """Least and largest possible reward of an episode within `max_rounds`: intervals of an evaluation are cut to
        them."""
        ...

    def cost(self, tool: ToolUse) -> float:
        """Return the cost of a turn's tool use; `Turn.reward` is `Step.reward` less this."""
        ...

    def demonstrate(self, task: Task, seed: int, tools: Sequence[str]) -> Iterable[Move]:
        """An expert's moves, for supervised starts, using none but `tools`; ValueError if it cannot without others."""
        ...

    def random_tries(self, task: Task, num: int, seed: int) -> Iterable[str | Action]:
        """Return `num` random well-formed actions, each to be judged in a fresh episode; text alone is an answer.
        Without this method, the floor of an evaluation plays whole episodes of random declared actions."""
        ...

    def random_argument(self, task: Task, name: str, seed: int) -> str:
        """Return a random argument of the declared action `name`, for random episodes."""
        ...

    def edition(self) -> str:
        """A name for what its tasks depend on beside its configuration, such as what is in a file; empty for
        nothing."""
        ...


class CapableEpisode(Episode, Protocol):
    """Optional members of an episode."""

    def opening(self) -> Step:
        """Return what the agent sees before its first action, and which actions are legal then."""
        ...

    def chance(self, luck: int) -> None:
        """Called before each step of a policy: the number keys what chance decides in that step. Samples of a task have
        different numbers, and so has a fork from its turn on. Without a call (an expert, the gym) the task keys it."""
        ...

    def picture(self) -> str:
        """Return the whole state as text for people (`rlx play`); the agent never sees it."""
        ...

    def close(self) -> None:
        """Called once when the episode is over, however it ended: in an error and by an interrupt too."""
        ...


class WeightedPart(Protocol):
    """A part of a mixture."""

    @property
    def env(self) -> Environment: ...

    @property
    def protocol(self) -> Dialect | None: ...

    @property
    def weight(self) -> float: ...


Known = Mapping[str, Any]
"""Counts of the episodes played: a small JSON object, saved with the run."""


class Course(Protocol):
    """Choice of the part of each task in a mixture: pure functions of the counts of the episodes played."""

    def begin(self) -> Known: ...

    def adapt(self, known: Known, groups: Sequence[Group]) -> Known:
        """After a step."""
        ...

    def given(self, known: Known) -> Mapping[str, int]:
        """Return the number of tasks that each part gave."""
        ...

    def choose(self, known: Known, num: int, *key: object) -> list[str]:
        """The part of each of a step's tasks; `key` is what random numbers are for."""
        ...

    def tell(self, known: Known) -> Metrics: ...


def course_of(env: Environment) -> Course | None:
    """Return the course of a mixture; None where tasks come in a fixed order."""
    course: Course | None = _has(env, "course", None)
    return course


def portions_of(env: Environment) -> Mapping[str, WeightedPart]:
    """The parts of a mixture by name; none of an environment that is one."""
    parts: Mapping[str, WeightedPart] = getattr(env, "parts", {})
    return parts


def parts_of(env: Environment) -> dict[str, Environment]:
    """Every environment that a task may be of, by `Task.env`."""
    return {name: portion.env for name, portion in portions_of(env).items()} or {"": env}


def trained_parts(env: Environment) -> dict[str, Environment]:
    """Return the parts that have a share of the tasks of training."""
    return {name: portion.env for name, portion in portions_of(env).items() if portion.weight} or {"": env}


def part_of(env: Environment, task: Task) -> Environment:
    """The environment a task is of."""
    parts = parts_of(env)
    if task.env not in parts:
        raise ValueError(f"env: task {task.id!r:.60} is of {task.env!r:.60}, which is none of {', '.join(parts)!r}")
    return parts[task.env]


def dialect_of(env: Environment, protocol: Dialect, part: str = "") -> Dialect:
    """Return the protocol of an environment, or of a part of it: the part's own, where it names one."""
    portion = portions_of(env).get(part)
    own = None if portion is None else portion.protocol
    inner = parts_of(env)[part]
    return (own or protocol).bound(tools_of(inner), actions_of(inner))


def _has(env: object, name: str, otherwise: Any) -> Any:
    return getattr(env, name, otherwise)


def rounds_of(env: Environment) -> int | None:
    """The limit of turns it asks for; None where it asks for none."""
    rounds: int | None = _has(env, "max_rounds", None)
    return rounds


def tools_of(env: Environment) -> tuple[Verb, ...]:
    return verbs_of(env, "tools")


def actions_of(env: Environment) -> tuple[Verb, ...]:
    return verbs_of(env, "actions")


def verbs_of(env: Environment, name: str) -> tuple[Verb, ...]:
    """Return the environment's tools or actions; MistakeError where they are anything but verbs."""
    found = _has(env, name, ())
    if not isinstance(found, Sequence) or not all(isinstance(one, Verb) for one in found):
        expected = f"{name} = (Verb(name='ask', description='ask for a price', argument='thing'),)"
        raise MistakeError(f"env: {name} of {type(env).__name__} is {found!r:.80}: expected a tuple, as in {expected}")
    return tuple(found)


def is_replayable(env: Environment) -> bool:
    return bool(_has(env, "replayable", True))


def pace_of(env: Environment) -> Pace:
    pace: Pace = _has(env, "pace", "ticks")
    if pace not in get_args(Pace):
        refuse("env.pace", pace, "inline, ticks or live")
    return pace


def answer_form_of(env: Environment) -> AnswerForm:
    """Form of the environment's answers; a line where it declares none."""
    form: AnswerForm = _has(env, "answer_form", "line")
    if form not in get_args(AnswerForm):
        refuse("env.answer_form", form, "line, program or turn")
    return form


def reward_range_of(env: Environment, max_rounds: int | None = None) -> tuple[float, float]:
    """Return the least and largest possible reward of an episode, of any part; infinite where nothing says them. More
    turns than the environment asks for may cost more than it says."""
    found = [_has(part, "reward_range", (-inf, inf)) for part in parts_of(env).values()]
    limits = [rounds_of(part) for part in parts_of(env).values()]
    is_longer = max_rounds is not None and any(limit is not None and limit < max_rounds for limit in limits)
    return -inf if is_longer else min(low for low, _ in found), max(high for _, high in found)


def is_reproducible(env: Environment) -> bool:
    """Tell whether the same seed gives the same episodes: no part has the pace `live`."""
    return all(pace_of(part) != "live" for part in parts_of(env).values())


def cost_of(env: Environment, tool: ToolUse) -> float:
    """Return the cost of a turn's tool use; 0 where the environment sets no price."""
    found = env.cost(tool) if hasattr(env, "cost") else 0.0
    if not is_finite(found):
        raise MistakeError(f"env: cost of {type(env).__name__} is {found!r:.60}: expected a finite number")
    return float(found)


def has_expert(env: Environment) -> bool:
    return hasattr(env, "demonstrate")


def moves_of(env: Environment, task: Task, seed: int, tools: tuple[str, ...]) -> Iterable[Move]:
    """An expert's moves; ValueError where there is none, or none that does without other tools."""
    if not hasattr(env, "demonstrate"):
        raise ValueError(f"env: {type(env).__name__} has no expert: it demonstrates nothing")
    return map(lawful_move, env.demonstrate(task, seed, tools))


def lawful_move(move: Move) -> Move:
    if not isinstance(move, Move):
        raise ValueError(f"env: an expert's move is {move!r:.80}: expected Move(thought=…, action=Action(…))")
    return move


def edition_of(env: Environment) -> str:
    """Join the editions of all parts; empty where they read no files."""
    return " ".join(filter(None, (_has(part, "edition", str)() for part in parts_of(env).values())))


def has_chance(episode: Episode) -> bool:
    """Tell whether chance decides something in the steps of the episode, other than by its task."""
    return hasattr(episode, "chance")


def give_luck(episode: Episode, luck: int) -> None:
    """Give an episode the number that keys chance in its next step; 0 is none."""
    if luck and has_chance(episode):
        episode.chance(luck)  # type: ignore[attr-defined]


NOTHING_SEEN = Step()
"""Before the first action of an episode without an opening."""


def has_opening(episode: Episode) -> bool:
    return hasattr(episode, "opening")


def opening_of(episode: Episode) -> Step:
    """Return what the agent sees before its first action."""
    step: Step = episode.opening() if hasattr(episode, "opening") else NOTHING_SEEN
    return step


def lawful(env: Environment, step: Step) -> Step:
    """The step, if it is one, its numbers are finite, what it calls legal is declared, and something can be done
    next."""
    if not isinstance(step, Step):
        told = f"env: a step of {type(env).__name__} is {step!r:.60}"
        raise ValueError(f"{told}: expected Step(observation=(Text(…),), …)")
    seen = step.observation
    for one in seen if isinstance(seen, tuple) else (seen,):
        if not isinstance(seen, tuple) or not isinstance(one, Text) or not isinstance(one.text, str):
            told = f"env: a step of {type(env).__name__} has the observation {seen!r:.60}"
            raise ValueError(f"{told}: expected a tuple of Text, as in (Text('warm'),)")
    if not is_finite(step.reward):
        raise ValueError(f"env: a step's reward is {step.reward!r:.60}: expected a finite number")
    if step.metrics and not all(map(is_finite, step.metrics.values())):
        raise ValueError(f"env: a step's metrics are {dict(step.metrics)!r:.80}: expected finite numbers")
    if step.legal is None:
        return step
    names = [verb.name for verb in actions_of(env)]
    for name in step.legal:
        if name not in names:
            raise ValueError(f"env: a step calls {name!r:.60} legal, and its actions are {', '.join(names) or 'none'}")
    if not step.legal and not step.done and not tools_of(env):
        raise ValueError("env: a step calls nothing legal and goes on: end the episode, or give None for all actions")
    sets = legal_sets(actions_of(env))
    if sets and not step.done and frozenset(step.legal) not in sets:
        told = f"env: a step calls {', '.join(step.legal) or 'nothing'} legal"
        raise ValueError(f"{told}, which its actions are in no situation; name one in their `when`")
    return step


def legal_sets(actions: Sequence[Verb]) -> tuple[frozenset[str], ...]:
    """Return one set of legal actions for each situation that the actions name; none where they name none. A step
    that says what is legal says one of them, so that a protocol can draw what may be chosen after each."""
    situations = dict.fromkeys(one for verb in actions for one in verb.when)
    sets = (frozenset(verb.name for verb in actions if not verb.when or one in verb.when) for one in situations)
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
    episode: Episode, action: Action, num_turns: int, max_rounds: int | None, before: Step = NOTHING_SEEN
) -> Step:
    """A step of an episode in which `num_turns` have passed. Where no more may pass it is the last: a call or an
    invalid turn ends nothing, so it is not made; an act or an answer that does not end the episode is cut off. A
    summary is none: what was legal after the step `before` it still is."""
    if not is_for_environment(action):
        return Step(legal=before.legal)
    if max_rounds is None or num_turns < max_rounds:
        return episode.step(action)
    if action.kind in ("call", "invalid"):
        return Step(done=True, truncated=True, success=False)
    step = episode.step(action)
    return step if getattr(step, "done", True) else replace(step, done=True, truncated=True, success=False)


def only_legal(action: Action, legal: tuple[str, ...] | None) -> Action:
    """The action, unless it is a declared one that may not come now."""
    if legal is None:
        return action
    name = {"act": action.name, "answer": "answer"}.get(action.kind)
    if name is None or name in legal:
        return action
    return Action(kind="invalid", text=f"{name} is not possible now; possible: {', '.join(legal)}")


@contextmanager
def open_episode(env: Environment, task: Task) -> Iterator[Episode]:
    """A fresh episode, closed however the block ends."""
    episode = env.start(task)
    try:
        yield episode
    finally:
        if hasattr(episode, "close"):
            episode.close()
