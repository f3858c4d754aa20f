"""What an environment calls legal, and what its expert does, are held to what it declares."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from math import inf
from typing import Any, ClassVar

import pytest

from rlx.base.fault import fault
from rlx.base.limits import MistakeError
from rlx.env.countdown.countdown import Countdown
from rlx.env.game.guess_the_number import GuessTheNumber
from rlx.env.mixed.mixture import Mixture, Portion
from rlx.environment import Environment, Episode
from rlx.environment.expert import DemonstrationError, demonstration
from rlx.environment.world import (
    cost_of,
    dialect_of,
    hidden_method,
    lawful,
    legal_sets,
    reward_range_of,
    start_episode,
    step_within,
)
from rlx.protocol.direct import Direct
from rlx.protocol.tags import Tags
from rlx.tool.lend import Lend
from rlx.tool.python import Python
from rlx.types import Action, Move, Step, Task, Text, ToolUse, Verb
from tests.errors import raises_naming
from tests.loops import for_each

TASK = Task(id="7", prompt=(), data={})


@dataclass(frozen=True, kw_only=True)
class Hall(Environment):
    """Doors to the left and the right; what is legal after each step is given."""

    actions: ClassVar = (Verb(name="left", description="go left"), Verb(name="right", description="go right"))
    tools: tuple[Verb, ...] = ()
    legal: tuple[tuple[str, ...] | None, ...] = (None, None)
    moves: tuple[Action, ...] = ()

    def tasks(self, split: str, seed: int) -> Iterator[Task]:
        return iter([TASK])

    def start(self, task: Task) -> Any:
        return Walk(list(self.legal))

    def demonstrate(self, task: Task, seed: int, tools: Any) -> Iterator[Move]:
        return (Move(thought="", action=action) for action in self.moves)


@dataclass
class Walk(Episode):
    legal: list[tuple[str, ...] | None] = field(default_factory=list)

    def opening(self) -> Step:
        return Step(legal=self.legal.pop(0))

    def step(self, action: Action) -> Step:
        if not self.legal:
            raise KeyError("no door")
        return Step(legal=self.legal.pop(0))


def act(name: str, text: str = "") -> Action:
    return Action(kind="act", name=name, text=text)


@pytest.mark.parametrize(
    ("legal", "names"),
    [
        (("lft",), ["'lft'", "left, right"]),
        ((), ["nothing legal", "None"]),
        ([], ["nothing legal", "None"]),
    ],
)
def test_what_is_legal_is_declared_and_something_is(legal: tuple[str, ...], names: list[str]) -> None:
    with raises_naming(ValueError, "env:", *names):
        lawful(Hall(), Step(legal=legal))


@for_each("seen", ["warm", ("warm",), (Text(5),), [Text("warm")]])  # type: ignore[arg-type]
def test_what_is_no_step_and_what_is_no_observation_is_told_of_the_environment(seen: Any) -> None:
    with raises_naming(ValueError, "env:", "of Hall", "None", "Step(observation="):
        lawful(Hall(), None)  # type: ignore[arg-type]
    with raises_naming(ValueError, "env:", "Hall", "observation", "Text"):
        lawful(Hall(), Step(observation=seen))


def test_where_an_environment_fails_is_the_last_place_that_is_neither_rlxs_nor_pythons() -> None:
    with pytest.raises(ValueError, match="Expecting value") as error:
        json.loads("[")
    assert fault(error.value).startswith(f"JSONDecodeError at {__file__}:")


def test_a_step_that_is_none_is_told_so_where_it_would_have_been_the_last() -> None:
    class Silent(Episode):
        def step(self, action: Action) -> Any:
            return None

    assert step_within(Silent(), act("left"), 0, 0) is None


@for_each("number", [float("nan"), float("inf"), -float("inf"), "1", None, 10**400])
def test_a_number_that_is_none_is_no_reward_and_no_metric(number: Any) -> None:
    with raises_naming(ValueError, "env:", "reward", f"{number!r:.60}"):
        lawful(Hall(), Step(reward=number))
    with raises_naming(ValueError, "env:", "metrics"):
        lawful(Hall(), Step(metrics={"distance": number}))


@for_each("number", [float("nan"), float("inf"), "1", None])
def test_a_cost_that_is_no_number_is_a_mistake_of_the_environment(number: Any) -> None:
    class Priced(Hall):
        def tool_cost(self, tool: ToolUse) -> Any:
            return number

    with raises_naming(MistakeError, "env:", "tool_cost of Priced", repr(number)):
        cost_of(Priced(), ToolUse())


def test_a_task_whose_prompt_is_a_string_is_a_mistake_of_the_environment() -> None:
    wrong: Any = "Go."
    with raises_naming(MistakeError, "env:", "task 'one'", "'Go.'"):
        Task(id="one", prompt=wrong, data={})


def test_what_is_legal_together_is_so_in_a_situation() -> None:
    near, far = (Verb(name=name, description=name, when=(name, "both")) for name in ("near", "far"))
    always = Verb(name="wait", description="wait")
    assert legal_sets((near, far, always)) == ({"near", "wait"}, {"near", "far", "wait"}, {"far", "wait"})
    assert legal_sets((always,)) == ()

    @dataclass(frozen=True, kw_only=True)
    class Near(Hall):
        actions: ClassVar = (near, far, always)

    hall = Near()
    for legal in (("wait", "near"), ("near", "far", "wait"), None):
        assert lawful(hall, Step(legal=legal)) == Step(legal=legal)
    with raises_naming(ValueError, "near legal", "actions"):
        lawful(hall, Step(legal=("near",)))


def test_nothing_may_be_legal_where_the_episode_ends_or_a_tool_can_be_called() -> None:
    for env, step in (
        (Hall(), Step(legal=(), done=True)),
        (Hall(tools=(Verb(name="map", description="look"),)), Step(legal=())),
        (Hall(), Step(legal=("right", "left"))),
        (GuessTheNumber(), Step()),
    ):
        assert lawful(env, step) is step


def test_an_expert_is_shown_with_what_came_of_each_move() -> None:
    env = Hall(legal=(("left",), ("right",), None), moves=(act("left"), act("right")))
    opening, shown = demonstration(env, dialect_of(env, Tags()), TASK, 0)
    assert opening.legal == ("left",)
    assert [(one.text, one.step.legal) for one in shown] == [("<left></left>", ("right",)), ("<right></right>", None)]


@for_each(
    "env, names",
    [
        (
            Hall(legal=(("left",), ("right",)), moves=(act("left"), act("left"))),
            ["expert's move 2", "task '7'", "act left ''", "right"],
        ),
        (Hall(moves=(act("up", "stairs"),)), ["expert's move 1", "task '7'", "act up 'stairs'"]),
        (Hall(moves=(act("left"), act("left"))), ["expert's move 2", "task '7'", "act left ''", "KeyError", __file__]),
        (Hall(legal=(None, ("lft",)), moves=(act("left"),)), ["move 1", "task '7'", "act left ''", "'lft'"]),
    ],
)
def test_an_experts_wrong_move_is_a_line_that_names_it(env: Hall, names: list[str]) -> None:
    for protocol in (Tags(), Direct()):
        with raises_naming(DemonstrationError, "env:", *names) as error:
            demonstration(env, dialect_of(env, protocol), TASK, 0)
        assert error.value.exit_code == 2


def test_an_answer_that_is_an_act_is_told_what_it_should_be() -> None:
    env = Hall(moves=(act("answer", "10.05"),))
    with raises_naming(DemonstrationError, "env:", "move 1", "task '7'", "kind='answer'"):
        demonstration(env, Tags(), TASK, 0)


def test_the_possible_rewards_of_a_mixture_are_those_of_all_its_parts() -> None:
    countdown, game = Countdown(max_rounds=2), GuessTheNumber(max_turns=3)
    assert reward_range_of(countdown) == (pytest.approx(-0.3 - 2 * 0.12), 1.0)
    assert reward_range_of(countdown, 5) == (-inf, 1.0), "more turns may cost more"
    assert reward_range_of(Lend(env=game, tool=Python(), lambda_call=0.5, reward_call=1.0)) == (-inf, inf)
    both = Mixture(parts={"a": Portion(env=countdown), "b": Portion(env=game)})
    assert reward_range_of(both) == (pytest.approx(-0.54), 1.0)
    assert reward_range_of(Hall(tools=())) == (-inf, inf)


@pytest.mark.parametrize("tools", [("sql",), Verb(name="sql", description="run a query"), "sql"])
def test_tools_that_are_no_tuple_of_verbs_are_refused(tools: Any) -> None:
    with raises_naming(MistakeError, "env:", "tools", "Hall", "(Verb("):
        dialect_of(Hall(tools=tools), Tags())


class Client:
    def close(self) -> None: ...


class Odd(Episode):
    """An episode of which some objects hide a method."""

    def __init__(self, **own: Any) -> None:
        vars(self).update(own)

    def step(self, action: Action) -> Step:
        return Step(done=True)

    @staticmethod
    def picture() -> str:
        return "as a function of the class"

    def end(self) -> None: ...


class Room(Hall):
    own: ClassVar[dict[str, Any]] = {}

    def start(self, task: Task) -> Episode:
        return Odd(**self.own)


@pytest.mark.parametrize("own", [{"close": Client().close}, {"picture": "text"}, {"opening": lambda: Step()}])
def test_an_attribute_that_hides_a_method_is_refused_in_every_episode(
    own: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    task = Task(id="a", prompt=(), data={})
    start_episode(Room(), task)
    monkeypatch.setattr(Room, "own", own)
    with raises_naming(MistakeError, "Odd", next(iter(own))):
        start_episode(Room(), task)


def test_an_attribute_that_is_another_method_of_the_episode_hides_one_too(monkeypatch: pytest.MonkeyPatch) -> None:
    episode = Odd()
    episode.close = episode.end  # type: ignore[method-assign]
    assert hidden_method(episode) == "close"
    assert hidden_method(Odd()) == ""
