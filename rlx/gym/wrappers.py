"""GEM's wrappers by their names: what an observation holds (rlx.gym.views), and what an episode has come to.

    get_wrapper_fns("python_tool,concat_chat", tokenizer=tokenizer)  ->  functions from environment to environment

Tools come first (rlx.gym.tools), with GEM's rewards and number of uses, then what is observed, then the tracking.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache, partial
from typing import Any

import gymnasium

from rlx.gym.single import TextEnv
from rlx.gym.tools import GemTool, PythonCodeTool, SearchTool, ToolEnvWrapper
from rlx.gym.views import View
from rlx.limits import MistakeError, near

Env = gymnasium.Env[Any, str]

VIEWS: Mapping[str, View] = {"concat": "observations", "concat_with_action": "history", "concat_chat": "chat"}
TOOLS: Mapping[str, tuple[Callable[[], GemTool], float, float]] = {
    "python_tool": (PythonCodeTool, 0.05, 0.25),
    "python_tool_no_int_reward": (PythonCodeTool, 0.0, 0.0),
    "python_tool_no_int_reward_last_line_error": (PythonCodeTool, 0.0, 0.0),
    "search_tool": (SearchTool, 0.3, 0.0),
    "search_tool_no_int_reward": (SearchTool, 0.0, 0.0),
}
"""Each with GEM's reward of a call, and of one that succeeds."""
MAX_USES = 5


class EpisodeTracking(gymnasium.Wrapper[Any, str, Any, str]):
    """Steps and reward of an episode so far, in every `info`, beside those of the one before it in a reset's."""

    def __init__(self, env: Env) -> None:
        super().__init__(env)
        self.num_steps, self.total = 0, 0.0

    def reset(self, seed: int | None = None, **keywords: Any) -> tuple[Any, dict[str, Any]]:
        before = {"prev_ep_step_counter": self.num_steps, "prev_ep_cumulative_rewards": self.total}
        observation, info = self.env.reset(seed=seed, **keywords)
        self.num_steps, self.total = 0, 0.0
        return observation, {**info, **before, **self.totals()}

    def step(self, action: str) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        observation, reward, terminated, truncated, info = self.env.step(action)
        self.num_steps, self.total = self.num_steps + 1, self.total + float(reward)
        return observation, float(reward), terminated, truncated, {**info, **self.totals()}

    def get_state(self) -> dict[str, Any]:
        return {**self.unwrapped.get_state(), **self.totals()}  # type: ignore[attr-defined]

    def set_state(self, state: Mapping[str, Any]) -> None:
        self.unwrapped.set_state(state)  # type: ignore[attr-defined]
        self.num_steps, self.total = state.get("step_counter", 0), state.get("cumulative_rewards", 0.0)

    def totals(self) -> dict[str, Any]:
        return {"step_counter": self.num_steps, "cumulative_rewards": self.total}

    def __getattr__(self, name: str) -> Any:
        """Return an attribute of the environment, such as `sample_random_action`."""
        if name == "env" or name.startswith("_"):
            raise AttributeError(name)
        return getattr(self.env, name)


def viewed(env: Env, view: View, tokenizer: Any) -> Env:
    """The environment with other observations."""
    if not isinstance(env, TextEnv):
        raise MistakeError(f"a wrapper of observations goes around the environment itself, not {type(env).__name__}")
    return env.another(env.first_seed, observation=view, tokenizer=env.tokenizer if tokenizer is None else tokenizer)


def with_tool(env: Env, name: str) -> Env:
    """The environment with a tool beside it."""
    tool, reward, success_reward = TOOLS[name]
    if not isinstance(env, TextEnv):
        raise MistakeError(f"wrapper {name}: a tool goes around the environment itself, not {type(env).__name__}")
    return ToolEnvWrapper(env, [made(tool)], reward, success_reward, MAX_USES)


@cache
def made(tool: Callable[[], GemTool]) -> GemTool:
    """One for all environments."""
    return tool()


def get_wrapper_fns(wrappers: str, tokenizer: Any = None) -> list[Callable[[Env], Env]]:
    """Return the wrappers of names with commas between; a MistakeError for an unknown name."""
    return [wrapper_of(name.strip(), tokenizer) for name in wrappers.split(",") if name.strip()]


def wrapper_of(name: str, tokenizer: Any) -> Callable[[Env], Env]:
    if name in VIEWS:
        return partial(viewed, view=VIEWS[name], tokenizer=tokenizer)
    if name == "episode_tracking":
        return EpisodeTracking
    if name in TOOLS:
        return partial(with_tool, name=name)
    raise MistakeError(f"there is no wrapper {name!r:.60}{near(name, [*TOOLS, *VIEWS, 'episode_tracking'])}")
