"""Environments of your own with GEM's interface: a class with `reset(seed)` and `step(text)`, under a name.

    class Reverse(rlx.gym.Env):                              register("custom:Reverse", Reverse, length=5)
        def reset(self, seed=None): ...                      register("custom:Reverse-hard", "module:Reverse", length=9)
        def step(self, action): ...                          make("custom:Reverse"), make_vec(["custom:Reverse"] * 8)

`make` returns an instance of the class. A run of rlx does not play it: there an environment has tasks and is described
by a yaml (docs/adding-an-environment.md).
"""

from __future__ import annotations

import random
from abc import abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import gymnasium
import numpy as np

from rlx.base.limits import MistakeError
from rlx.gym.spaces import AnyText, require


class Env(gymnasium.Env[Any, str]):
    """Base class with GEM's interface."""

    observation_space = AnyText()
    action_space = AnyText()
    env_id = ""
    entry_point: Any = None
    is_slow = True
    """A vector steps it in a thread of its own, if it is asynchronous."""

    @abstractmethod
    def step(self, action: str) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Take a turn: observation, reward, terminated, truncated, info."""

    @abstractmethod
    def reset(self, seed: int | None = None, **keywords: Any) -> tuple[Any, dict[str, Any]]:
        """Begin an episode. As in GEM, a seed here also seeds the generators of `random` and numpy, which are shared by
        the whole process; draw from `self.np_random` instead where episodes have to be the same beside others."""
        if seed is not None:
            random.seed(seed)
            np.random.seed(seed % 2**32)
            super().reset(seed=seed)
        return "", {}

    def sample_random_action(self) -> str:
        raise NotImplementedError

    def spawn(self, same_state: bool = False, **keywords: Any) -> Env:
        raise NotImplementedError


class EnvWrapper(gymnasium.Wrapper[Any, str, Any, str]):
    """Wrapper of an environment, which has all attributes of what it wraps."""

    def reset(self, seed: int | None = None, **keywords: Any) -> tuple[Any, dict[str, Any]]:
        return self.env.reset(seed=seed, **keywords)

    def __getattr__(self, name: str) -> Any:
        if name == "env" or name.startswith("_"):
            raise AttributeError(name)
        return getattr(self.env, name)


@dataclass(frozen=True)
class Registration:
    entry_point: Callable[..., Any] | str
    keywords: Mapping[str, Any]


REGISTERED: dict[str, Registration] = {}
"""Environments of this process by their names."""


def register(env_id: str, entry_point: Callable[..., Any] | str, **keywords: Any) -> None:
    """Give a name to a class, or to `module:Class`, with these keywords of its constructor."""
    require(str, "a name, such as custom:Reverse", env_id=env_id)
    if env_id in REGISTERED:
        raise MistakeError(f"register: {env_id!r:.60} is registered already; choose another name")
    if not callable(entry_point) and (not isinstance(entry_point, str) or entry_point.count(":") != 1):
        raise MistakeError(f"register: entry_point={entry_point!r:.60}: expected a class, or 'module:Class'")
    REGISTERED[env_id] = Registration(entry_point, keywords)


def make_registered(env_id: str, keywords: Mapping[str, Any]) -> Env:
    """Make an environment of a registered class."""
    registration = REGISTERED[env_id]
    entry_point = registration.entry_point
    env = (load(entry_point) if isinstance(entry_point, str) else entry_point)(**{**registration.keywords, **keywords})
    if not isinstance(env, Env):
        raise MistakeError(f"{env_id}: its class is {type(env).__name__:.60}: derive it from rlx.gym.Env")
    env.env_id, env.entry_point = env_id, entry_point
    return env


def load(entry_point: str) -> Callable[..., Any]:
    module, name = entry_point.split(":")
    try:
        factory: Callable[..., Any] = getattr(import_module(module), name)
    except (ImportError, AttributeError) as error:
        raise MistakeError(f"register: {entry_point:.80} cannot be imported: {error}") from error
    return factory
