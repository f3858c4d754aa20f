"""States and copies of environments, as GEM's group-relative trainers and tree searches use them."""

from __future__ import annotations

import json
from copy import deepcopy
from pathlib import Path
from typing import Any

from gymnasium.error import ResetNeeded
from hypothesis import given, settings
from hypothesis import strategies as st

import rlx.gym
from rlx.base.limits import MistakeError
from rlx.gym.spoken import Cut
from rlx.gym.tools import ToolEnvWrapper
from tests.errors import raises_naming

GUESS = "game:GuessTheNumber-v0"
TURNS = st.lists(
    st.integers(0, 60).map(r"\boxed{{{}}}".format) | st.just(Cut(r"\boxed{3}")) | st.just("<echo>6</echo>"), max_size=6
)


class Echo:
    """A tool that counts its calls."""

    tool_type = "echo"

    def __init__(self) -> None:
        self.num_calls = 0

    def instruction_string(self) -> str:
        return "You may say <echo>words</echo>."

    def execute_action(self, action: str) -> tuple[bool, bool, str, str]:
        if "<echo>" not in action:
            return False, True, "", action
        self.num_calls += 1
        return True, self.num_calls % 2 == 0, f"echo {self.num_calls}", action


def wrapped(echo: Echo, view: str) -> Any:
    env: Any = ToolEnvWrapper(rlx.gym.make(GUESS, observation=view), [echo], 0.1, 0.2, max_tool_uses=2)
    return rlx.gym.get_wrapper_fns("episode_tracking")[0](env)


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 2**30), TURNS, st.sampled_from(["last", "observations", "history", "chat"]))
def test_a_copy_and_a_state_go_on_alike_and_run_no_tool_again(seed: int, turns: list[str], view: str) -> None:
    echo = Echo()
    env, other = wrapped(echo, view), wrapped(Echo(), view)
    env.reset(seed=seed)
    for text in turns:
        if env.step(text)[2]:
            break
    num_calls = echo.num_calls
    other.set_state(deepcopy(env.get_state()))
    copies = [deepcopy(env), other]
    assert echo.num_calls == num_calls
    assert all(copy.get_state() == env.get_state() for copy in copies)
    if env.unwrapped.episode is not None:
        outcome = env.step(r"\boxed{60}")
        assert all(copy.step(r"\boxed{60}") == outcome for copy in copies)


def test_a_copy_has_the_same_tasks_to_come_and_goes_its_own_way() -> None:
    env = rlx.gym.make(GUESS, seed=3)
    unbegun = deepcopy(env)
    env.reset()
    env.reset()
    copies = [deepcopy(env) for _ in range(3)]
    ahead = [env.reset()[1]["task"] for _ in range(4)]
    for copy in copies:
        assert [copy.reset()[1]["task"] for _ in range(4)] == ahead
    first = [unbegun.reset()[1]["task"] for _ in range(6)]
    assert first[2:] == ahead
    assert copies[0].sample_random_action() == copies[1].sample_random_action(), "random numbers are copied too"


def test_a_state_leaves_the_stream_where_it_is() -> None:
    env, other = (rlx.gym.make(GUESS, seed=seed) for seed in (3, 4))
    env.reset()
    state = env.get_state()
    following = [env.reset()[1]["task"] for _ in range(2)]
    assert len(set(following)) == 2
    env.set_state(state)
    again = rlx.gym.make(GUESS, seed=3)
    tasks = [again.reset()[1]["task"] for _ in range(4)]
    assert (tasks[1:3], env.reset()[1]["task"]) == (following, tasks[3])
    other.set_state(state)
    assert other.get_state()["task"].key == tasks[0]


def test_questions_of_a_data_set_are_copied_too(tmp_path: Path) -> None:
    rows = tmp_path / "rows.jsonl"
    rows.write_text("".join(json.dumps({"question": f"{i} + 1", "answer": str(i + 1)}) + "\n" for i in range(40)))
    env = rlx.gym.make("math", source="hub", hub=str(rows))
    env.reset(seed=1)
    copies = [deepcopy(env) for _ in range(2)]
    said = rf"\boxed{{{env.task.data['key'][0]}}}"
    assert [copy.step(said)[1] for copy in copies] == [1.0, 1.0] == [env.step(said)[1]] * 2
    assert len({copy.reset()[1]["task"] for copy in [*copies, env]}) == 1


def test_what_has_no_state_says_so() -> None:
    env = rlx.gym.make(GUESS)
    with raises_naming(ResetNeeded, "reset()"):
        env.get_state()
    with raises_naming(MistakeError, "state={}", "get_state()"):
        env.set_state({})
