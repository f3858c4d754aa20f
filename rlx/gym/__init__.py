"""Environments for trainers other than ours: Gymnasium's five values, text in and text out, GEM's names understood.

env = rlx.gym.make("game:GuessTheNumber-v0")      # or "game/guess_the_number", as `rlx list env` has it
observation, info = env.reset(seed=0)
observation, reward, terminated, truncated, info = env.step(r"I halve what is left: \\boxed{25}")
"""

from __future__ import annotations

try:
    import gymnasium  # noqa: F401
except ModuleNotFoundError as error:
    raise ModuleNotFoundError("rlx.gym needs Gymnasium: pip install 'rlx[gym]'", name="gymnasium") from error

from rlx.gym.named import make, make_vec, print_envs
from rlx.gym.registered import Env, EnvWrapper, register
from rlx.gym.single import TextEnv
from rlx.gym.spaces import AnyText, Messages
from rlx.gym.spoken import Cut
from rlx.gym.tools import PythonCodeTool, SearchTool, ToolEnvWrapper
from rlx.gym.vector import TextVectorEnv
from rlx.gym.wrappers import WRAPPER_FACTORY, get_wrapper_fns

__all__ = [
    "WRAPPER_FACTORY",
    "AnyText",
    "Cut",
    "Env",
    "EnvWrapper",
    "Messages",
    "PythonCodeTool",
    "SearchTool",
    "TextEnv",
    "TextVectorEnv",
    "ToolEnvWrapper",
    "get_wrapper_fns",
    "make",
    "make_vec",
    "print_envs",
    "register",
]
