"""A tool beside any environment: its calls are answered, limited and paid for here, all else there."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import pytest

from rlx.env.bifurcation.bifurcation import Bifurcation
from rlx.env.countdown.countdown import Countdown
from rlx.env.game.guess_the_number import GuessTheNumber, describe, guess
from rlx.env.mixed.mixture import Mixture, Portion
from rlx.env.questions.math import Math
from rlx.environment import Environment, Episode
from rlx.environment.world import cost_of, moves_of, open_episode
from rlx.tool.lend import Lend
from rlx.tool.python import Python
from rlx.tool.tool import Result, Tool
from rlx.types import Action, Step, Task, Text, ToolUse, Verb
from tests.errors import raises_naming

GAME = GuessTheNumber()
LENT = Lend(env=GAME, tool=Python(), max_calls=2, lambda_call=0.02, lambda_token=0.001, lambda_error=0.1)
TASK = describe(20, 1, 50, 10)


@dataclass(frozen=True)
class Reverse(Tool):
    """A tool of one's own."""

    verb: ClassVar = Verb(name="reverse", description="reverse a word", argument="word")

    def run(self, text: str) -> Result:
        return Result(output=text[::-1])


def call(text: str, name: str = "python") -> Action:
    return Action(kind="call", name=name, text=text)


def test_calls_are_the_tools_and_all_else_is_the_environments() -> None:
    with open_episode(LENT, TASK) as episode:
        assert episode.opening() == GAME.start(TASK).opening()
        said = [episode.step(action) for action in (call("24 * 2"), guess(48), call("1 / 0"), guess(20))]
    assert [step.observation[0].text.split(":")[0] for step in said[:3]] == ["48", "lower than 48", "ZeroDivisionError"]
    assert said[3] == Step(observation=(Text("correct"),), reward=1.0, done=True, success=True)
    assert [step.tool.num_calls for step in said] == [1, 0, 1, 0]


def test_a_call_beyond_the_limit_is_not_made_and_counts_as_failed() -> None:
    episode = LENT.start(TASK)
    steps = [episode.step(call("1 + 1")) for _ in range(3)]
    assert steps[2] == Step(
        observation=(Text("Error: no call of python is left"),), tool=ToolUse(num_calls=1, num_failed=1, name="python")
    )
    assert episode.step(guess(20)).success


def test_each_tool_has_its_own_price() -> None:
    both = Lend(env=Countdown(lambda_call=0.5, lambda_error=0.0), tool=Reverse(), lambda_call=0.02, lambda_token=0.001)
    reversed_once = ToolUse(num_calls=1, num_tokens=10, name="reverse")
    assert cost_of(both, reversed_once) == pytest.approx(0.03)
    assert cost_of(both, ToolUse(num_calls=1)) == 0.5
    assert [verb.name for verb in both.tools] == ["python", "reverse"]
    assert cost_of(LENT, ToolUse(num_calls=1, num_failed=1, num_tokens=10, name="python")) == pytest.approx(0.13)


def test_it_has_what_the_environment_has() -> None:
    assert (Lend(env=Countdown(), tool=Reverse()).max_rounds, LENT.actions) == (8, GAME.actions)
    assert LENT.has_expert
    assert LENT.has_random_tries
    assert list(moves_of(LENT, TASK, 0, ("python",))) == list(GAME.demonstrate(TASK, 0, ()))
    assert LENT.reward_only_keys == ()


def test_what_is_legal_stays_so_over_a_call_and_an_episode_is_closed() -> None:
    closed: list[bool] = []

    class Door(Episode):
        def opening(self) -> Step:
            return Step(legal=("open",))

        def step(self, action: Action) -> Step:
            return Step(legal=("enter",))

        def close(self) -> None:
            closed.append(True)

    class House(Environment):
        def tasks(self, split: str, seed: int) -> Iterator[Task]:
            return GAME.tasks(split, seed)

        def start(self, task: object) -> Door:
            return Door()

    with open_episode(Lend(env=House(), tool=Reverse()), TASK) as episode:
        legal = [episode.opening().legal, episode.step(call("ab", "reverse")).legal]
        act = Action(kind="act", name="open", text="")
        legal += [episode.step(act).legal, episode.step(call("c", "reverse")).legal]
    assert legal == [("open",), ("open",), ("enter",), ("enter",)]
    assert closed == [True]


def test_chance_is_the_environments_where_it_has_any() -> None:
    env = Bifurcation(slip=0.5)
    task = next(iter(env.tasks("train", 0)))
    lent = Lend(env=env, tool=Python(), max_calls=1).start(task)
    assert lent.has_chance
    assert not LENT.start(next(iter(LENT.tasks("train", 0)))).has_chance


def test_what_cannot_be_lent_is_refused() -> None:
    with raises_naming(ValueError, "tool=python"):
        Lend(env=Countdown(), tool=Python())
    with raises_naming(ValueError, "env=a mixture", "lend"):
        Lend(env=Mixture(parts={"game": Portion(env=GAME)}), tool=Python())
    with raises_naming(ValueError, "env.max_rounds=0", "python"):
        Lend(env=Math(), tool=Python())
    with raises_naming(ValueError, "max_calls=-1"):
        Lend(env=GAME, tool=Python(), max_calls=-1)


def test_calls_take_their_time_where_steps_take_none() -> None:
    assert GuessTheNumber().pace == "inline"
    assert Lend(env=GuessTheNumber(), tool=Python()).pace == "ticks"


def test_calls_may_be_rewarded_up_to_their_limit() -> None:
    lend = Lend(env=GAME, tool=Python(), max_calls=3, reward_call=0.05, reward_success=0.25)
    with open_episode(lend, TASK) as episode:
        rewards = [episode.step(action).reward for action in (call("1"), call("1 / 0"), guess(5), call("2"), call("3"))]
    assert rewards == pytest.approx([0.3, 0.05, 0.0, 0.3, 0.0])
