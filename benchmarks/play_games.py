"""Measure random play, the expert and the speed of each game: `play_games.py [NAME ...]`.

A name is the beginning of an option of conf/env/game, such as `mastermind`. Random play is `random_tries`, one after
the other in one episode, or where one action alone decides nothing, actions drawn anew each turn; success is the share
of games won, reward the mean sum of an episode's.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterable
from importlib import import_module
from itertools import islice
from random import Random
from statistics import mean
from typing import Any

from rlx.environment.random_play import random_act, tries_of
from rlx.environment.world import moves_of
from rlx.settings.folders import list_options, read_option, shipped_folder
from rlx.types import Action, Step, Task

NUM_TASKS = 200
Player = Callable[[Any, Task, int], Iterable[Action]]


def make(name: str) -> Any:
    keys = read_option("env", name)
    module, _, what = keys.pop("_target_").rpartition(".")
    return getattr(import_module(module), what)(**keys)


def at_random(env: Any, task: Task, seed: int) -> Iterable[Action]:
    if env.has_random_tries:
        return tries_of(env, task, task.data["max_turns"], seed)
    rng = Random(f"play_games/{seed}/{task.id}")
    drawn = (random_act(env, task, None, rng) for _ in range(task.data["max_turns"]))
    return [action for action in drawn if action is not None]


def expert(env: Any, task: Task, seed: int) -> Iterable[Action]:
    return (move.action for move in moves_of(env, task, seed, ()))


def play(env: Any, task: Task, actions: Iterable[Action]) -> list[Step]:
    episode = env.start(task)
    steps: list[Step] = [episode.opening()]
    for action in actions:
        steps.append(episode.step(action))
        if steps[-1].done:
            break
    return steps[1:]


def score(env: Any, tasks: list[Task], player: Player) -> str:
    games = [play(env, task, player(env, task, seed)) for seed, task in enumerate(tasks)]
    success = mean(bool(steps and steps[-1].success) for steps in games)
    reward = mean(sum(step.reward for step in steps) for steps in games)
    return f"{success:.3f} | {reward:.3f} | {mean(map(len, games)):.1f}"


def speed(env: Any, tasks: list[Task]) -> float:
    """Steps per second of random play, the starts of its episodes with it; what is played is chosen before."""
    games = [(task, list(at_random(env, task, seed))) for seed, task in enumerate(tasks)]
    start, num_steps = time.perf_counter(), 0
    while time.perf_counter() - start < 1:
        num_steps += sum(len(play(env, task, actions)) for task, actions in games)
    return num_steps / (time.perf_counter() - start)


def main() -> None:
    names = tuple(f"game/{name}" for name in sys.argv[1:]) or ("game/",)
    print("| game | tasks | random: success | reward | turns | expert: success | reward | turns | steps/s |")
    print("|---|---|---|---|---|---|---|---|---|")
    for name in list_options("env", [shipped_folder("conf")]):
        if name.startswith("game/") and name.startswith(names):
            env = make(name)
            tasks = list(islice(env.tasks("test", 0), NUM_TASKS))
            random = score(env, tasks, at_random)
            best = score(env, tasks, expert) if env.has_expert else "- | - | -"
            steps = f"{speed(env, tasks) / 1000:.0f}k"
            print(f"| {name.removeprefix('game/')} | {len(tasks)} | {random} | {best} | {steps} |", flush=True)


if __name__ == "__main__":
    main()
