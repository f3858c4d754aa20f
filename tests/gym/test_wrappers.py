"""GEM's wrappers by their names."""

from __future__ import annotations

from typing import Any

import pytest

import rlx.gym
from rlx.base.limits import MistakeError
from rlx.gym.wrappers import get_wrapper_fns
from tests.errors import raises_naming
from tests.loops import for_each

GUESS = "game:GuessTheNumber-v0"


class Spoken:
    """A tokenizer whose template is a name for each role."""

    def apply_chat_template(self, messages: Any, tokenize: bool, add_generation_prompt: bool) -> str:
        return "".join(f"<{one['role']}>{one['content']}" for one in messages) + "<assistant>" * add_generation_prompt


def wrapped(names: str, **keywords: Any) -> Any:
    env: Any = rlx.gym.make(GUESS, protocol="direct", seed=1, **keywords)
    for wrap in get_wrapper_fns(names):
        env = wrap(env)
    return env


@for_each(
    "names, observation",
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
    ("names", "near"),
    [
        ("concatt", "concat"),
        ("pyton_tool", "python_tool"),
    ],
)
def test_a_wrapper_that_is_none_is_one_line(names: str, near: str) -> None:
    with raises_naming(MistakeError, f"'{names}'", near):
        get_wrapper_fns(names)
    with raises_naming(MistakeError, "observations", "EpisodeTracking"):
        wrapped("episode_tracking,concat")


def test_the_factory_has_gems_names_in_gems_order() -> None:
    names = list(rlx.gym.WRAPPER_FACTORY)
    tools = ["python_tool", "python_tool_no_int_reward", "python_tool_no_int_reward_last_line_error"]
    views = ["concat", "concat_chat", "concat_with_action", "concat_chat_on_reset"]
    assert names == [*tools, "search_tool", "search_tool_no_int_reward", *views, "episode_tracking"]
    env: Any = rlx.gym.WRAPPER_FACTORY["search_tool"](rlx.gym.make(GUESS), max_tool_uses=1)
    assert (env.max_tool_uses, env.pay) == (1, (0.3, 0.0, 0.0))


def test_only_the_first_observation_is_in_the_template_on_reset() -> None:
    wrap = rlx.gym.get_wrapper_fns("concat_chat_on_reset", tokenizer=Spoken())[0]
    env = wrap(rlx.gym.make(GUESS))
    first, _ = env.reset(seed=0)
    assert first.startswith("<user>Put your number in")
    assert first.endswith("<assistant>")
    assert env.step(r"\boxed{51}")[0].startswith(first + "\\boxed{51}\n")
    with raises_naming(MistakeError, "concat_chat_on_reset:", "tokenizer"):
        rlx.gym.get_wrapper_fns("concat_chat_on_reset")[0](rlx.gym.make(GUESS))
