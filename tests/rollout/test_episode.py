"""One episode's steps under the player's limit of turns: Countdown's own, and that of an environment without one."""

from __future__ import annotations

from rlx.env.countdown.countdown import Countdown, describe
from rlx.environment import Episode
from rlx.environment.world import only_legal, step_within
from rlx.types import Action, Step, Text

TASK = describe([44, 19, 35], 98)
WHY = Action(kind="invalid", text="why")


def call(text: str) -> Action:
    return Action(kind="call", name="python", text=text)


def answer(text: str) -> Action:
    return Action(kind="answer", text=text)


def play(max_rounds: int | None, *actions: Action) -> list[Step]:
    episode = Countdown().start(TASK)
    return [step_within(episode, action, index, max_rounds) for index, action in enumerate(actions)]


def test_a_call_beyond_the_rounds_is_not_made_and_truncates() -> None:
    steps = play(2, call("1"), WHY, call("98"))
    assert [step.done for step in steps] == [False, False, True]
    assert steps[1] == Step(observation=(Text("Error: why"),))
    assert steps[2] == Step(done=True, truncated=True, success=False)


def test_an_answer_is_taken_after_the_last_round() -> None:
    assert play(1, call("98"), answer("19 + 35 + 44"))[-1].success


def test_without_rounds_an_invalid_action_ends_the_episode() -> None:
    assert play(0, WHY)[-1].truncated


def test_without_a_limit_nothing_but_the_environment_ends_it() -> None:
    assert not any(step.done for step in play(None, *[call("1")] * 40))


class Dice(Episode):
    """An act goes on until it is told to stop."""

    def step(self, action: Action) -> Step:
        stopped = action.name == "stop"
        return Step(observation=(Text("4"),), reward=0.5, done=stopped, success=stopped or None)


def test_the_last_act_is_made_and_cut_off_unless_it_ends_the_episode() -> None:
    roll, stop = (Action(kind="act", name=name, text="") for name in ("roll", "stop"))
    assert step_within(Dice(), roll, 3, 3) == Step(
        observation=(Text("4"),), reward=0.5, done=True, truncated=True, success=False
    )
    assert step_within(Dice(), stop, 3, 3) == Step(observation=(Text("4"),), reward=0.5, done=True, success=True)


def test_an_act_that_may_not_come_now_is_told_what_may() -> None:
    act = Action(kind="act", name="left", text="")
    assert only_legal(act, None) == only_legal(act, ("left", "right")) == act
    assert only_legal(act, ("right", "up")).text == "left is not possible now; possible: right, up"
    assert only_legal(answer("1"), None) == only_legal(answer("1"), ("left", "answer")) == answer("1")
    assert only_legal(answer("1"), ("left",)).text == "answer is not possible now; possible: left"
    assert only_legal(call("1"), ()) == call("1"), "of declared actions alone it is said whether they are legal"
