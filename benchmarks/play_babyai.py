"""BabyAI-Text as the expert and a random walk play it, and its speed beside bare minigrid.

    python benchmarks/play_babyai.py expert --num 100             # every level, with 0, 3 and 5 distractors
    python benchmarks/play_babyai.py random --num 100
    python benchmarks/play_babyai.py replay --num 500             # the same actions twice: equal text?
    python benchmarks/play_babyai.py speed
    python benchmarks/play_babyai.py vector                       # rlx.gym's vector, starts of episodes included

Each prints rows of a table. `--level GoTo` plays that level alone.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator
from itertools import islice
from random import Random
from statistics import mean
from typing import Any

import rlx.gym
from rlx.env.babyai.babyai import BabyAI
from rlx.env.babyai.grid import ACTIONS, Room
from rlx.env.babyai.layout import LEVELS, layout_of
from rlx.types import Action, Step, Task

ACTS = {name: Action(kind="act", name=name, text="") for name in ACTIONS}


def play(env: BabyAI, task: Task, actions: Iterator[Action]) -> list[Step]:
    """Play until the episode ends or the actions do."""
    episode, steps = env.start(task), list[Step]()
    for action in actions:
        steps.append(episode.step(action))
        if steps[-1].done:
            break
    return steps


def walk(task: Task) -> Iterator[Action]:
    """Yield random actions without end."""
    rng = Random(task.id)
    while True:
        yield ACTS[rng.choice(ACTIONS)]


def by_expert(env: BabyAI, tasks: list[Task]) -> str:
    played, failed = [], list[str]()
    for task in tasks:
        try:
            played.append(play(env, task, (move.action for move in env.demonstrate(task, 0, ()))))
        except ValueError as error:
            failed.append(str(error))
    return "\n".join([f"{summary(played)} | {len(failed)} |", *failed])


def by_chance(env: BabyAI, tasks: list[Task]) -> str:
    return f"{summary([play(env, task, walk(task)) for task in tasks])} |"


def summary(played: list[list[Step]]) -> str:
    """Return the share of fulfilled missions, the mean reward and the mean number of turns."""
    solved = mean(bool(steps[-1].success) for steps in played)
    reward = mean(sum(step.reward for step in steps) for steps in played)
    return f"{solved:.3f} | {reward:.3f} | {mean(map(len, played)):.1f}"


def again(env: BabyAI, tasks: list[Task]) -> str:
    equal = [play(env, task, islice(walk(task), 40)) == play(env, task, islice(walk(task), 40)) for task in tasks]
    return f"{sum(equal)} of {len(equal)} |"


def speed(env: BabyAI, tasks: list[Task]) -> str:
    """Compare the best of five rates of CPU time, with text and without."""
    rates: dict[str, list[float]] = {"bare": [], "text": []}
    for _ in range(5):
        for kind in rates:
            rooms: list[Any] = [Room(layout_of(t.data)).level if kind == "bare" else env.start(t) for t in tasks]
            num, before = 0, time.process_time()
            for task, room in zip(tasks, rooms, strict=True):
                for action in islice(walk(task), 64):
                    num += 1
                    if kind == "bare":
                        _, _, ended, late, _ = room.step(room.actions(ACTIONS.index(action.name)))
                    else:
                        ended = late = room.step(action).done
                    if ended or late:
                        break
            rates[kind].append(num / (time.process_time() - before))
    bare, text = max(rates["bare"]), max(rates["text"])
    return f"{bare:.0f} | {text:.0f} | {text / bare:.2f} |"


def vector_speed(env: BabyAI, tasks: list[Task]) -> str:
    """Compare the best of five rates of CPU time of a vector of eight environments and of bare minigrid, both with the
    starts of their episodes."""
    name = f"babyai:{env.level}{'Test' if env.test_pairs else ''}-v0"
    vector = rlx.gym.make_vec(name, 8, protocol="direct", num_distractors=env.num_distractors)
    rates: dict[str, list[float]] = {"bare": [], "vector": []}
    said = [env_action.replace("_", " ") + "\n" for env_action in ACTIONS]
    for repeat in range(5):
        num, before = 0, time.process_time()
        for task in tasks:
            room: Any = Room(layout_of(task.data)).level
            for action in walk(task):
                num += 1
                if any(room.step(room.actions(ACTIONS.index(action.name)))[2:4]):
                    break
        rates["bare"].append(num / (time.process_time() - before))
        rng = Random(repeat)
        vector.reset(seed=repeat)
        before = time.process_time()
        for _ in range(num // 8):
            vector.step(rng.choices(said, k=8))
        rates["vector"].append(num // 8 * 8 / (time.process_time() - before))
    bare, text = max(rates["bare"]), max(rates["vector"])
    return f"{bare:.0f} | {text:.0f} | {text / bare:.2f} |"


KINDS: dict[str, Callable[[BabyAI, list[Task]], str]] = {
    "expert": by_expert,
    "random": by_chance,
    "replay": again,
    "speed": speed,
    "vector": vector_speed,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kind", choices=KINDS)
    parser.add_argument("--num", type=int, default=50, help="tasks of each row")
    parser.add_argument("--level", choices=LEVELS, help="that level alone")
    parser.add_argument("--distractors", type=int, nargs="+", default=[0, 3, 5])
    asked = parser.parse_args()
    for level in [asked.level] if asked.level else LEVELS:
        for held_out in (False, True) if LEVELS[level].has_test else (False,):
            for num_distractors in asked.distractors:
                env = BabyAI(level=level, test_pairs=held_out, num_distractors=num_distractors, num_test=asked.num)
                name = f"{level}{'Test' if held_out else ''} | {num_distractors}"
                print(f"| {name} | {KINDS[asked.kind](env, list(env.tasks('test', 0)))}", flush=True)


if __name__ == "__main__":
    main()
