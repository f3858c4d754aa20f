"""Score a random answer and the expert's in each family of questions; measure prompts, draws and judgements.

    answer_questions.py [NAME ...] [rg:TASK ...]

A name is an option of conf/env. The random answer is the first of `random_tries`, where there are some.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable
from itertools import islice
from statistics import mean
from typing import Any

from rlx.environment.random_play import tries_of
from rlx.environment.world import moves_of
from rlx.gym.named import build_env
from rlx.types import Action, Step, Task, Text

NUM_TASKS = 200
NAMES = ("code", "logic", *(f"logic/ruletaker_d{depth}" for depth in (0, 1, 2, 3, 5)), "math", "qa", "lend_search")


def make(name: str) -> Any:
    option, _, task = name.partition(":")
    return build_env(option, {"task": task} if task else {})


def play(env: Any, task: Task, actions: Iterable[Action]) -> list[Step]:
    episode = env.start(task)
    return [episode.step(action) for action in actions]


def expert(env: Any, task: Task) -> Iterable[Action]:
    tools = tuple(verb.name for verb in env.tools)
    return [move.action for move in moves_of(env, task, 0, tools)] if task.data["answer"] else []


def score(games: list[list[Step]]) -> str:
    played = [steps for steps in games if steps]
    if not played:
        return "- | -"
    success = mean(bool(steps[-1].success) for steps in played)
    return f"{success:.3f} | {mean(sum(step.reward for step in steps) for steps in played):.3f}"


def main() -> None:
    print(
        "| option | tasks | characters | random: success | reward | expert: success | reward | drawn in | judged in |"
    )
    print("|---|---|---|---|---|---|---|---|---|")
    for name in sys.argv[1:] or NAMES:
        env = make(name)
        next(env.tasks("train", 0))
        start = time.perf_counter()
        list(islice(env.tasks("train", 1), NUM_TASKS))
        drawn = (time.perf_counter() - start) / NUM_TASKS
        tasks = list(islice(env.tasks("test", 0), NUM_TASKS))
        tries = [list(islice(tries_of(env, task, 1, 0), 1)) if env.has_random_tries else [] for task in tasks]
        random = [play(env, task, actions) for task, actions in zip(tasks, tries)]
        shown = [expert(env, task) for task in tasks]
        start = time.perf_counter()
        best = [play(env, task, actions) for task, actions in zip(tasks, shown)]
        judged = (time.perf_counter() - start) / len(tasks)
        length = mean(len(part.text) for task in tasks for part in task.prompt if isinstance(part, Text))
        told = f"{score(random)} | {score(best)} | {1000 * drawn:.2f} ms | {1000 * judged:.2f} ms"
        print(f"| {name} | {len(tasks)} | {length:.0f} | {told} |", flush=True)


if __name__ == "__main__":
    main()
