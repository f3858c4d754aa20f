"""A package's own play, run by an interpreter that has it: a line asks for a task, a seed and turns, a line answers
with what was seen, and each turn's reward and ends."""

from __future__ import annotations

import json
import random
import sys
from typing import Any


def gem(task: str, seed: int, said: list[str]) -> list[Any]:
    import gem
    import numpy

    random.seed(seed)
    numpy.random.seed(seed)
    env = gem.make(task)
    seen, info = env.reset(seed)
    told = [[seen, info.get("suffix", "")]]
    for text in said:
        seen, reward, terminated, truncated, info = env.step(text)
        told.append([seen, info.get("suffix", ""), float(reward), bool(terminated), bool(truncated)])
        if terminated or truncated:
            break
    return told


def textarena(task: str, seed: int, said: list[str]) -> list[Any]:
    import textarena

    random.seed(seed)
    env = textarena.make(task)
    env.reset(num_players=1, seed=seed)
    told: list[Any] = [env.get_observation()[1]]
    for text in said:
        done, _ = env.step(text)
        if done:
            rewards, info = env.close()
            return [*told, [str(info[0].get("reason") or ""), rewards[0]]]
        told.append(env.get_observation()[1])
    return told


if __name__ == "__main__":
    play = {"gem": gem, "textarena": textarena}[sys.argv[1]]
    answers = sys.stdout
    sys.stdout = sys.stderr
    for line in sys.stdin:
        try:
            answer = play(**json.loads(line))
        except Exception as error:
            answer = [f"{type(error).__name__}: {error}"]
        print(json.dumps(answer), file=answers, flush=True)
