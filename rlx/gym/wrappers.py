"""GEM's wrappers by their names: tools (rlx.gym.tools), views of an episode (rlx.gym.views), and totals of an episode.

    get_wrapper_fns("python_tool,concat_chat", tokenizer=tokenizer)  ->  functions from environment to environment
    WRAPPER_FACTORY["concat_chat"](env, tokenizer=tokenizer)         ->  one environment

The order is GEM's: first a tool, with GEM's rewards and number of uses, then a view, then the tracking.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache, partial
from typing import Any

import gymnasium

from rlx.base.limits import MistakeError, near
from rlx.gym.plain import ViewedTexts
from rlx.gym.registered import Env as OwnEnv
from rlx.gym.registered import EnvWrapper
from rlx.gym.single import TextEnv
from rlx.gym.tools import GemTool, PythonCodeTool, SearchTool, ToolEnvWrapper
from rlx.gym.views import View

Env = gymnasium.Env[Any, str]

VIEWS: Mapping[str, View] = {
    "concat": "observations",
    "concat_chat": "chat",
    "concat_with_action": "history",
    "concat_chat_on_reset": "chat_on_reset",
}
TOOLS: Mapping[str, tuple[Callable[[], GemTool], float, float]] = {
    "python_tool": (PythonCodeTool, 0.05, 0.25),
    "python_tool_no_int_reward": (PythonCodeTool, 0.0, 0.0),
    "python_tool_no_int_reward_last_line_error": (PythonCodeTool, 0.0, 0.0),
    "search_tool": (SearchTool, 0.3, 0.0),
    "search_tool_no_int_reward": (SearchTool, 0.0, 0.0),
}
"""Each with GEM's reward of a call, and of one that succeeds."""
MAX_USES = 5


class EpisodeTracking(EnvWrapper):
    """Steps and reward of an episode so far, in every `info`, beside those of the one before it in a reset's."""

    def __init__(self, env: Env) -> None:
        super().__init__(env)
        self.num_steps, self.total = 0, 0.0

    def reset(self, seed: int | None = None, **keywords: Any) -> tuple[Any, dict[str, Any]]:
        before = {"prev_ep_step_counter": self.num_steps, "prev_ep_cumulative_rewards": self.total}
        observation, info = super().reset(seed=seed, **keywords)
        self.num_steps, self.total = 0, 0.0
        return observation, {**info, **before, **self.totals()}

    def step(self, action: str) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        observation, reward, terminated, truncated, info = self.env.step(action)
        self.num_steps, self.total = self.num_steps + 1, self.total + float(reward)
        return observation, float(reward), terminated, truncated, {**info, **self.totals()}

    @property
    def get_state(self) -> Callable[[], dict[str, Any]]:
        """Function that returns the state; no attribute where the environment has none, as trainers ask."""
        state_of = self.env.get_state  # type: ignore[attr-defined]
        return lambda: {**state_of(), **self.totals()}

    def set_state(self, state: Mapping[str, Any]) -> None:
        self.env.set_state(state)  # type: ignore[attr-defined]
        self.num_steps, self.total = state.get("step_counter", 0), state.get("cumulative_rewards", 0.0)

    def totals(self) -> dict[str, Any]:
        return {"step_counter": self.num_steps, "cumulative_rewards": self.total}


def change_view(env: Env, view: View, tokenizer: Any = None) -> Env:
    """Return the environment with other observations."""
    if isinstance(env.unwrapped, OwnEnv):
        return ViewedTexts(env, view, tokenizer)
    if not isinstance(env, TextEnv):
        raise MistakeError(f"a wrapper of observations goes around the environment itself, not {type(env).__name__}")
    return env.another(env.first_seed, observation=view, tokenizer=env.tokenizer if tokenizer is None else tokenizer)


def with_tool(env: Env, name: str, **settings: Any) -> Env:
    """Return the environment with a tool beside it, with GEM's rewards but for these settings."""
    tool, reward, success_reward = TOOLS[name]
    inner: Any = env
    if not isinstance(env, TextEnv) and not isinstance(env.unwrapped, OwnEnv):
        raise MistakeError(f"wrapper {name}: a tool goes around the environment itself, not {type(env).__name__}")
    usual = {"tool_reward": reward, "tool_success_reward": success_reward, "max_tool_uses": MAX_USES}
    wrapper: Env = ToolEnvWrapper(inner, **{"tools": [build_tool(tool)], **usual, **settings})
    return wrapper


@cache
def build_tool(tool: Callable[[], GemTool]) -> GemTool:
    """Build a tool once, for all environments."""
    return tool()


WRAPPER_FACTORY: Mapping[str, Callable[..., Env]] = {
    **{name: partial(with_tool, name=name) for name in TOOLS},
    **{name: partial(change_view, view=view) for name, view in VIEWS.items()},
    "episode_tracking": EpisodeTracking,
}
"""Wrappers by GEM's names, in the order in which they go around an environment."""


def get_wrapper_fns(wrappers: str, tokenizer: Any = None) -> list[Callable[[Env], Env]]:
    """Return the wrappers of names with commas between; a MistakeError for an unknown name."""
    return [wrapper_of(name.strip(), tokenizer) for name in wrappers.split(",") if name.strip()]


def wrapper_of(name: str, tokenizer: Any) -> Callable[[Env], Env]:
    if name not in WRAPPER_FACTORY:
        raise MistakeError(f"there is no wrapper {name!r:.60}{near(name, WRAPPER_FACTORY)}")
    return partial(WRAPPER_FACTORY[name], tokenizer=tokenizer) if name in VIEWS else WRAPPER_FACTORY[name]
