"""Base classes of environments and episodes: the required members, and all optional capabilities.

    @dataclass(frozen=True, kw_only=True)
    class Dice(Environment):
        sides: int = 6

        def tasks(self, split: str, seed: int) -> Iterator[Task]: ...
        def start(self, task: Task) -> Episode: ...

A capability is a member with a default. An environment adds it by a class attribute, a field, a property or a method of
this name. rlx asks for no member that is not declared here.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import inf
from operator import attrgetter
from typing import Any, Literal, Protocol

from rlx.base.declared import declared, overrides, public
from rlx.base.limits import MistakeError
from rlx.environment.dialect import Dialect
from rlx.types import Action, Group, Metrics, Move, Part, Step, Task, ToolUse, Verb

AnswerForm = Literal["line", "program", "turn"]
"""Form of an environment's answers: a line or a few words, a program, or a whole turn that the environment itself
parses."""

Pace = Literal["inline", "ticks", "live"]
"""Time at which an environment's steps are taken: at once, after a fixed number of ticks, or when they are ready, which
no seed repeats."""


class Episode(ABC):
    """One single-use, deterministic run of an environment on a task."""

    @abstractmethod
    def step(self, action: Action) -> Step: ...

    def opening(self) -> Step:
        """Return what the agent sees before its first action, and which actions are legal then."""
        return Step()

    def set_luck(self, luck: int) -> None:  # noqa: B027
        """Called before each step of a policy: the number keys what chance decides in that step. Samples of a task have
        different numbers, and so has a fork from its turn on. Without a call (an expert, the gym) the task keys it."""

    def picture(self) -> str:
        """Return the whole state as text for people (`rlx play`); the agent never sees it. Empty: there is none."""
        return ""

    def close(self) -> None:  # noqa: B027
        """Called once when the episode is over, however it ended: in an error and by an interrupt too."""

    @property
    def has_chance(self) -> bool:
        """Chance decides something in the steps, other than by the task."""
        return overrides(self, Episode, "set_luck")


class Environment(ABC):
    """Tasks, and episodes of them. Write it as a frozen dataclass: its fields are the keys of its configuration."""

    @abstractmethod
    def tasks(self, split: str, seed: int) -> Iterator[Task]:
        """An endless stream of `train` tasks, or the finite, fixed `test` set; the splits never overlap."""

    @abstractmethod
    def start(self, task: Task) -> Episode: ...

    # what an agent can do

    @declared
    def tools(self) -> tuple[Verb, ...]:
        """Tools that the environment lends: a `call` names one."""
        return ()

    @declared
    def actions(self) -> tuple[Verb, ...]:
        """Actions that the environment declares: an `act` names one. Beside them, an answer is possible only if one is
        named `answer`."""
        return ()

    @declared
    def answer_form(self) -> AnswerForm:
        """Form of its answers; a protocol is chosen by it."""
        return "line"

    @declared
    def max_rounds(self) -> int | None:
        """Number of turns after which an episode may still go on; the next turn is the last one in any case. None: any
        number. The player counts turns, so an evaluation may set another limit."""
        return None

    @declared
    def max_turns(self) -> int | None:
        """Turns after which the environment itself ends an episode, as games do by their rules. None: any number."""
        return None

    # several agents in an episode

    @declared
    def agents(self) -> tuple[str, ...]:
        """Agents that act in an episode, by name. `Step.next_agent` names the agent of the next turn, and of the first
        turn in the opening. An agent reads only the observations directly before its own turns."""
        return ("",)

    def briefing(self, task: Task, agent: str) -> tuple[Part, ...]:
        """Return what one of several agents is told at the beginning."""
        return task.prompt

    # rewards

    @declared
    def reward_range(self) -> tuple[float, float]:
        """Least and largest possible reward of an episode within `max_rounds`: intervals of an evaluation are cut to
        them."""
        return -inf, inf

    @declared
    def discount(self) -> float:
        """Discount of a turn, for algorithms that credit turns (GEM, Table 3: 0.9 for games, else 1)."""
        return 1.0

    def tool_cost(self, tool: ToolUse) -> float:
        """Return the cost of a turn's tool use; `Turn.reward` is `Step.reward` less this."""
        return 0.0

    @declared
    def reward_only_keys(self) -> tuple[str, ...]:
        """Keys of its configuration that change rewards and nothing else: demonstrations are the same for any value of
        them, so a warm start that imitates is reused."""
        return ()

    @declared
    def expert_only_keys(self) -> tuple[str, ...]:
        """Keys of its configuration that change demonstrations and nothing else: a plan takes lengths of episodes from
        them where the policy has copied such an expert."""
        return ()

    # how episodes are played

    @declared
    def replayable(self) -> bool:
        """The same actions always give the same steps; forks and replays need it."""
        return True

    @declared
    def pace(self) -> Pace:
        """Time at which its steps are taken."""
        return "ticks"

    # experts and random agents

    def demonstrate(self, task: Task, seed: int, tools: Sequence[str]) -> Iterable[Move]:
        """An expert's moves, for supervised starts, using none but `tools`; ValueError if it cannot without others."""
        raise ValueError(f"env: {type(self).__name__} has no expert: it demonstrates nothing")

    def random_tries(self, task: Task, num: int, seed: int) -> Iterable[str | Action]:
        """Return `num` random well-formed actions, each to be judged in a fresh episode; text alone is an answer.
        Without this method, the floor of an evaluation plays whole episodes of random declared actions."""
        return ()

    def random_argument(self, task: Task, name: str, seed: int) -> str:
        """Return a random argument of the declared action `name`, for random episodes."""
        raise MistakeError(f"env: {type(self).__name__} has no random argument of {name}")

    def unanswered(self, task: Task) -> Mapping[str, float]:
        """Return the metrics of an episode of this task in which no answer is judged, such as {"f1": 0.0}. Without them
        a figure would be a mean over those episodes alone that answered."""
        return {}

    # data from outside

    def data_version(self) -> str:
        """Return a name for what its tasks depend on beside its configuration, such as a digest of a file; empty for
        nothing."""
        return ""

    @declared
    def is_remote(self) -> bool:
        """Tasks or results come from a hub or a server: a plan does not wait for them."""
        return False

    @declared
    def hub_data(self) -> str:
        """Name of the data set on a hub that it reads; empty where it reads none."""
        return ""

    def check_inputs(self) -> None:  # noqa: B027
        """Refuse files that are here and cannot be used. Nothing is fetched."""

    def check_servers(self) -> None:  # noqa: B027
        """Refuse servers that it asks and that cannot be used from here."""

    # several environments in one

    @declared
    def components(self) -> Mapping[str, Component]:
        """Environments of a mixture, by `Task.env`; empty for a single environment."""
        return {}

    @declared
    def curriculum(self) -> Curriculum | None:
        """Choice of the component of each task; None where tasks come in a fixed order."""
        return None

    # what it has of all this; an environment around another one answers for that

    @property
    def has_tool_cost(self) -> bool:
        """Tool use may cost something."""
        return overrides(self, Environment, "tool_cost")

    @property
    def has_expert(self) -> bool:
        """The environment demonstrates its tasks."""
        return overrides(self, Environment, "demonstrate")

    @property
    def has_random_tries(self) -> bool:
        """The environment has random actions that are each judged in a fresh episode."""
        return overrides(self, Environment, "random_tries")

    @property
    def has_random_argument(self) -> bool:
        """Declared actions get random arguments."""
        return overrides(self, Environment, "random_argument")


class WrappedEpisode(Episode):
    """An episode around another one, which answers for all that a subclass does not define."""

    episode: Episode


class WrappedEnvironment(Environment):
    """An environment around another one, which answers for all that a subclass does not define."""

    env: Environment


def pass_on(wrapper: type, inner: str, base: type) -> None:
    """Give a wrapper every member of its base class, as that of the attribute `inner`."""
    for name in sorted(public(base)):
        setattr(wrapper, name, property(attrgetter(f"{inner}.{name}")))
    wrapper.__abstractmethods__ = frozenset()  # type: ignore[attr-defined]


pass_on(WrappedEpisode, "episode", Episode)
pass_on(WrappedEnvironment, "env", Environment)


class Component(Protocol):
    """An environment of a mixture."""

    @property
    def env(self) -> Environment: ...

    @property
    def protocol(self) -> Dialect | None:
        """Protocol of its own; None: the run's."""
        ...

    @property
    def weight(self) -> float:
        """Share of the tasks of training, in relation to the other weights."""
        ...


CurriculumState = Mapping[str, Any]
"""Counts of the episodes played: a small JSON object, saved with the run."""


class Curriculum(Protocol):
    """Choice of the component of each task: pure functions of the counts of the episodes played."""

    def begin(self) -> CurriculumState: ...

    def adapt(self, state: CurriculumState, groups: Sequence[Group]) -> CurriculumState:
        """Return the counts after a step."""
        ...

    def num_tasks(self, state: CurriculumState) -> Mapping[str, int]:
        """Return the number of tasks that each component gave."""
        ...

    def choose(self, state: CurriculumState, num: int, *key: object) -> list[str]:
        """Return the component of each of a step's tasks; `key` is what random numbers are for."""
        ...

    def tell(self, state: CurriculumState) -> Metrics: ...
