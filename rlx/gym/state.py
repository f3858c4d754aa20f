"""The state of an episode as data, for copies: the task, and the turns that lead to the state.

    state = env.get_state()     {"task": ..., "said": [...]}      the environment steps on, or begins another episode
    env.set_state(state)        begins the task again and says all turns again; any environment of the same option may

A copy by `copy.deepcopy` holds the same state, and its later resets have the same tasks. Both need an environment that
replays: the same turns always give the same steps.
"""

from __future__ import annotations

from collections.abc import Mapping
from copy import copy, deepcopy
from typing import TYPE_CHECKING, Any, TypeVar

from gymnasium.error import ResetNeeded

from rlx.base.limits import MistakeError
from rlx.environment.world import parts_of

if TYPE_CHECKING:
    from rlx.gym.single import TextEnv

E = TypeVar("E", bound="TextEnv")


def replays(env: TextEnv) -> bool:
    return all(part.replayable for part in parts_of(env.world).values())


def require_replayable(env: TextEnv) -> None:
    if not replays(env):
        raise MistakeError(f"{env.env_id} does not replay: it has no state to copy; make another environment")


def state_of(env: TextEnv) -> dict[str, Any]:
    """Return the task of the episode, and its turns up to now."""
    require_replayable(env)
    if "task" not in vars(env):
        raise ResetNeeded("no episode was begun: call reset() first")
    return {"task": env.task, "said": list(env.replies)}


def check_state(state: Any) -> None:
    if not isinstance(state, Mapping) or not {"task", "said"} <= state.keys():
        raise MistakeError(f"state={state!r:.60}: expected a state from get_state()")


def copy_of(env: E, memo: dict[int, Any]) -> E:
    """Return another environment at the same place of the same stream of tasks, in the same state."""
    other: E = env.another(env.first_seed)  # type: ignore[assignment]
    memo[id(env)] = other
    other.stream = copy(env.stream)
    other._np_random, other._np_random_seed = deepcopy(env._np_random, memo), env._np_random_seed
    if env.episode is not None or ("task" in vars(env) and replays(env)):
        other.set_state(env.get_state())
    return other
