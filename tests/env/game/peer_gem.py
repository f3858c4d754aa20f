"""GEM's side of a comparison: run by GEM's own interpreter, it plays what it is told, a line of JSON at a time.

in:   {"id": "game:Mastermind-v0-easy", "state": {"game_code": [3, 1]}, "said": ["1 2", "3 1"]}
out:  [{"text": "...", "suffix": "...", "reward": 0.5, "terminated": false, "truncated": false}, ...]

`state` is laid over the environment's own after a reset, each value as the type that stands there; a `seed` in it is
the reset's, and goes on after it. The first answer is the reset's. What is said stands in a box; an episode ends where
GEM ends it.
"""

from __future__ import annotations

import json
import random
import sys
from typing import Any

import nltk
import numpy as np
from nltk.corpus import words

nltk.download = lambda *_, **__: True
words.words = lambda *_: ["cat", "dogs", "crane", "planet", "capital", "elephant"]
"""The words are downloaded; nobody looks at them, as the state brings its own."""

import gem  # noqa: E402
from gem.envs.game_env import sudoku  # noqa: E402
from gem.envs.game_env.sokoban import sokoban  # noqa: E402

sokoban.generate_room = lambda **_: (np.ones((1, 1)), np.full((1, 1), 5), {})
sudoku.SudokuEnv._remove_cells = lambda self, grid, clues: grid
"""They take seconds, and the state brings others."""


def like(old: Any, new: Any) -> Any:
    """What came as JSON, as the type that stands there."""
    if isinstance(old, np.ndarray):
        return np.array(new)
    if isinstance(old, set | tuple):
        return type(old)(tuple(item) if isinstance(item, list) else item for item in new)
    return new


def answer(text: str, reward: float, terminated: bool, truncated: bool, info: dict[str, Any]) -> dict[str, Any]:
    suffix = info.get("suffix", "")
    return {"text": text, "suffix": suffix, "reward": reward, "terminated": terminated, "truncated": truncated}


def make(name: str) -> Any:
    """Without the example in its prompt, which is drawn from the generator that draws the puzzle."""
    env = gem.make(name)
    env.sample_random_action = lambda **_: r"\boxed{reveal 0 0}"
    return env


def play(env: Any, state: dict[str, Any], said: list[str]) -> list[dict[str, Any]]:
    text, _ = env.reset(seed=state.get("seed", 0))
    if "seed" not in state:
        random.seed(0)
    for name, value in state.items():
        setattr(env, name, like(getattr(env, name, None), value))
    answers = [answer(text, 0.0, False, False, {"suffix": env.get_task_suffix()})]
    for one in said:
        answers.append(answer(*env.step(rf"\boxed{{{one}}}")))
        if answers[-1]["terminated"] or answers[-1]["truncated"]:
            break
    return answers


def main() -> None:
    envs: dict[str, Any] = {}
    for line in sys.stdin:
        asked = json.loads(line)
        name = asked["id"]
        envs[name] = envs.get(name) or make(name)
        print(json.dumps(play(envs[name], asked["state"], asked["said"])), flush=True)


if __name__ == "__main__":
    main()
