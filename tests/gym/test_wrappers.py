"""GEM's wrappers by their names."""

from __future__ import annotations

from typing import Any

import pytest

import rlx.gym
from rlx.gym.wrappers import get_wrapper_fns
from rlx.limits import MistakeError

GUESS = "game:GuessTheNumber-v0"


def wrapped(names: str, **keywords: Any) -> Any:
    env: Any = rlx.gym.make(GUESS, protocol="direct", seed=1, **keywords)
    for wrap in get_wrapper_fns(names):
        env = wrap(env)
    return env


@pytest.mark.parametrize(
    ("names", "observation"),
    [("", "last"), ("concat", "observations"), ("concat_with_action", "history"), ("concat_chat", "chat")],
)
def test_a_wrapper_of_observations_is_a_view(names: str, observation: str) -> None:
    ours, theirs = wrapped("", observation=observation), wrapped(names)
    assert ours.reset() == theirs.reset()
    assert ours.step("25\n") == theirs.step("25\n")
    assert ours.observation_space == theirs.observation_space


def test_an_episode_is_tracked_and_the_one_before_it_told() -> None:
    env = wrapped("concat,episode_tracking", max_turns=2)
    _, info = env.reset()
    assert (info["step_counter"], info["prev_ep_step_counter"]) == (0, 0)
    for num in (1, 2):
        *_, info = env.step(env.sample_random_action())
        assert info["step_counter"] == num
    _, again = env.reset()
    assert (again["prev_ep_step_counter"], again["prev_ep_cumulative_rewards"]) == (2, info["cumulative_rewards"])


def test_a_vector_wraps_each_of_its_own() -> None:
    wrappers = get_wrapper_fns("concat,episode_tracking")
    envs = rlx.gym.make_vec([GUESS] * 2, wrappers=wrappers, vec_kwargs=[{}, {"max_turns": 1}], async_mode=True, seed=5)
    envs.reset()
    *_, infos = envs.step([env.unwrapped.sample_random_action() for env in envs.envs])  # type: ignore[attr-defined]
    assert infos[0]["step_counter"] == 1
    assert (infos[1]["step_counter"], infos[1]["final_info"]["step_counter"]) == (0, 1)


@pytest.mark.parametrize(
    ("names", "message"),
    [
        ("concatt", r"^there is no wrapper 'concatt'; did you mean concat"),
        ("pyton_tool", r"^there is no wrapper .pyton_tool.; did you mean python_tool"),
    ],
)
def test_a_wrapper_that_is_none_is_one_line(names: str, message: str) -> None:
    with pytest.raises(MistakeError, match=message):
        get_wrapper_fns(names)
    with pytest.raises(MistakeError, match=r"^a wrapper of observations goes around the environment itself"):
        wrapped("episode_tracking,concat")
