"""GEM's wrappers by their names: what an observation holds (rlx.gym.views), and what an episode has come to.

    get_wrapper_fns("concat_chat,episode_tracking", tokenizer=tokenizer)  ->  functions from environment to environment

Tools are lent by an environment of their own (conf/env/lend.yaml), not by a wrapper: prices are part of a task.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import gymnasium

from rlx.gym.single import TextEnv
from rlx.gym.views import View
from rlx.limits import MistakeError, near

Env = gymnasium.Env[Any, str]

VIEWS: Mapping[str, View] = {"concat": "observations", "concat_with_action": "history", "concat_chat": "chat"}


class EpisodeTracking(gymnasium.Wrapper[Any, str, Any, str]):
    """Steps and reward of an episode so far, in every `info`, beside those of the one before it in a reset's."""

    def __init__(self, env: Env) -> None:
        super().__init__(env)
        self.num_steps, self.total = 0, 0.0

    def reset(self, seed: int | None = None, *, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        before = {"prev_ep_step_counter": self.num_steps, "prev_ep_cumulative_rewards": self.total}
        observation, info = self.env.reset(seed=seed, options=options)
        self.num_steps, self.total = 0, 0.0
        return observation, {**info, **before, **self.told()}

    def step(self, action: str) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        observation, reward, terminated, truncated, info = self.env.step(action)
        self.num_steps, self.total = self.num_steps + 1, self.total + float(reward)
        return observation, float(reward), terminated, truncated, {**info, **self.told()}

    def told(self) -> dict[str, Any]:
        return {"step_counter": self.num_steps, "cumulative_rewards": self.total}

    def __getattr__(self, name: str) -> Any:
        """What the environment has besides, such as `sample_random_action`."""
        if name == "env" or name.startswith("_"):
            raise AttributeError(name)
        return getattr(self.env, name)


def viewed(env: Env, view: View, tokenizer: Any) -> Env:
    """The environment with other observations."""
    if not isinstance(env, TextEnv):
        raise MistakeError(f"a wrapper of observations goes around the environment itself, not {type(env).__name__}")
    return env.another(env.first_seed, observation=view, tokenizer=env.tokenizer if tokenizer is None else tokenizer)


def get_wrapper_fns(wrappers: str, tokenizer: Any = None) -> list[Callable[[Env], Env]]:
    """Those of a list of names with commas between; a MistakeError for a name that is none."""
    return [wrapper_of(name.strip(), tokenizer) for name in wrappers.split(",") if name.strip()]


def wrapper_of(name: str, tokenizer: Any) -> Callable[[Env], Env]:
    if name in VIEWS:
        return partial(viewed, view=VIEWS[name], tokenizer=tokenizer)
    if name == "episode_tracking":
        return EpisodeTracking
    if name.startswith(("python_tool", "search_tool")):
        raise MistakeError(
            f"wrapper {name}: a tool is lent by an environment: rlx.gym.make('lend') with keys of its own"
        )
    raise MistakeError(f"there is no wrapper {name!r:.60}{near(name, [*VIEWS, 'episode_tracking'])}")
