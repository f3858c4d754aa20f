"""Environments for other trainers: rlx.gym beside GEM, which runs in an interpreter of its own.

    RLX_GEM_PYTHON=/path/to/an/environment/with/gem-llm/bin/python python benchmarks/bench_gym.py [--rounds 5]

Both sides take turns in short rounds, with texts of their own random actions that are drawn beforehand; figures are
medians over rounds, in process time, and count the resets that the episodes need. "resets" are resets alone, and "64"
is a vector of so many. At last 64 environments with a tool of 50 ms, in wall time, as a share of 1,280 steps/s.
Without RLX_GEM_PYTHON our own side alone is measured. With --parts: what a step and a reset of ours are made of.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from statistics import median
from timeit import Timer
from typing import Any

GAMES = ("GuessTheNumber", "Mastermind", "Minesweeper", "FifteenPuzzle")
CASES = tuple(f"{name}{level}" for name in GAMES for level in ("-easy", "-hard"))
VECTOR = "GuessTheNumber-hard"
NUM_TEXTS, NUM_STEPS, NUM_RESETS, NUM_ENVS = 2000, 4000, 50, 64
SECONDS = 0.05


def id_of(case: str) -> str:
    name, _, level = case.partition("-")
    return f"game:{name}-v0-{level}"


def boxed(text: str) -> str:
    r"""GEM's random moves of the fifteen puzzle lack their \boxed{}, and nothing else of them can be read."""
    return text if "boxed" in text else rf"\boxed{{{text}}}"


def steps_of(env: Any) -> Callable[[], int]:
    """So many steps, with the resets that come between."""
    env.reset(seed=0)
    texts = []
    for _ in range(NUM_TEXTS):
        texts.append(boxed(env.sample_random_action()))
        if len(texts) % 20 == 0:
            env.reset()

    def work() -> int:
        env.reset()
        for i in range(NUM_STEPS):
            _, _, terminated, truncated, _ = env.step(texts[i % NUM_TEXTS])
            if terminated or truncated:
                env.reset()
        return NUM_STEPS

    return work


def resets_of(env: Any) -> Callable[[], int]:
    def work() -> int:
        for _ in range(NUM_RESETS):
            env.reset()
        return NUM_RESETS

    return work


def vector_of(envs: Any, single: Any) -> Callable[[], int]:
    single.reset()
    texts = [[single.sample_random_action() for _ in range(NUM_ENVS)] for _ in range(NUM_TEXTS // NUM_ENVS)]
    envs.reset(seed=0)

    def work() -> int:
        for i in range(NUM_STEPS // NUM_ENVS):
            envs.step(texts[i % len(texts)])
        return NUM_STEPS // NUM_ENVS * NUM_ENVS

    return work


def rate(work: Callable[[], int], clock: Callable[[], float] = time.process_time) -> float:
    began = clock()
    return work() / (clock() - began)


def works(package: Any, vectors: dict[str, Callable[[], Any]]) -> dict[str, Callable[[], int]]:
    found = {case: steps_of(package.make(id_of(case))) for case in CASES}
    found |= {f"{case}, resets": resets_of(package.make(id_of(case))) for case in CASES}
    single = package.make(id_of(VECTOR))
    return found | {name: vector_of(make(), single) for name, make in vectors.items()}


def ours() -> dict[str, Callable[[], int]]:
    import rlx.gym

    return works(rlx.gym, {"64": lambda: rlx.gym.make_vec(id_of(VECTOR), num_envs=NUM_ENVS)})


def gems() -> dict[str, Callable[[], int]]:
    import gem

    def vector(threads: bool) -> Any:
        return gem.make_vec([id_of(VECTOR)] * NUM_ENVS, async_mode=threads)

    return works(gem, {"64": lambda: vector(True), "64, synchronous": lambda: vector(False)})


def serve() -> None:
    """GEM's side: a line names what to do, a line says how fast it was."""
    out, sys.stdout = sys.stdout, sys.stderr
    known = gems()
    for line in sys.stdin:
        print(json.dumps(rate(known[line.strip()])), file=out, flush=True)


class Gem:
    """GEM in its own interpreter."""

    def __init__(self, python: str) -> None:
        self.process = subprocess.Popen(
            [python, __file__, "--gem"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            env={name: value for name, value in os.environ.items() if name != "PYTHONPATH"},
        )

    def rate(self, name: str) -> float:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(name + "\n")
        self.process.stdin.flush()
        return float(json.loads(self.process.stdout.readline()))


def measure(rounds: int) -> dict[str, dict[str, float]]:
    """Rates by name and side."""
    python = os.environ.get("RLX_GEM_PYTHON")
    gem, known = Gem(python) if python else None, ours()
    names = [*known, *(["64, synchronous"] if gem else [])]
    told: dict[str, dict[str, list[float]]] = {name: {} for name in names}
    for _ in range(rounds + 1):  # the first warms up
        for name in names:
            if name in known:
                told[name].setdefault("rlx", []).append(rate(known[name]))
            if gem is not None:
                told[name].setdefault("gem", []).append(gem.rate(name))
    if gem is not None:
        gem.process.communicate("")
    return {name: {side: median(rates[1:]) for side, rates in sides.items()} for name, sides in told.items()}


def slow_envs(num: int) -> Any:
    """A vector of environments whose tool takes its time."""
    from dataclasses import dataclass

    from rlx.environment import Environment, Episode, Pace
    from rlx.gym import TextEnv, TextVectorEnv
    from rlx.protocol.direct import Direct
    from rlx.types import Step, Task, Text

    @dataclass(frozen=True)
    class Slow(Environment):
        pace: Pace = "live"

        def tasks(self, split: str, seed: int) -> Any:
            while True:
                yield Task(id="slow", prompt=(Text("go"),), data={})

        def start(self, task: Task) -> Any:
            return Waiting()

    class Waiting(Episode):
        def step(self, action: Any) -> Step:
            time.sleep(SECONDS)
            return Step(observation=(Text("done"),))

    return TextVectorEnv([TextEnv(Slow(), Direct(), seed=i) for i in range(num)])


def slow_tool() -> float:
    """Steps/s of so many of them."""
    envs = slow_envs(NUM_ENVS)
    envs.reset()

    def work() -> int:
        for _ in range(20):
            envs.step(["go\n"] * NUM_ENVS)
        return 20 * NUM_ENVS

    rates = [rate(work, time.perf_counter) for _ in range(5)]
    envs.close()
    return median(rates)


def parts() -> dict[str, float]:
    """Nanoseconds of a step of GuessTheNumber-hard that goes on, of a reset, and of what they are made of."""
    import rlx.gym

    env = rlx.gym.make(id_of(VECTOR), max_turns=10**6)
    env.reset(seed=0)
    text = rf"\boxed{{{env.task.data['low']}}}"
    action, task = env.dialect.parse(text, "stop"), env.task
    episode, tasks = env.world.start(task), env.world.tasks("train", 0)
    told = episode.step(action).observation
    work: dict[str, Callable[[], Any]] = {
        "a step": lambda: env.step(text),
        "  its text, heard before": lambda: env.spoken.hear(text),
        "  the same, never heard": lambda: env.dialect.parse(text, "stop"),
        "  the game": lambda: episode.step(action),
        "  what is seen": lambda: env.dialect.render(told),
        "a reset": env.reset,
        "  the task": lambda: next(tasks),
        "  its start": lambda: env.begin(task),
        "  what is seen first": env.observe,
    }
    timed = {name: min(Timer(one, timer=time.process_time).repeat(9, 1000)) for name, one in work.items()}
    return {name: seconds * 1e6 for name, seconds in timed.items()}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--gem", action="store_true")
    parser.add_argument("--parts", action="store_true")
    arguments = parser.parse_args()
    if arguments.parts:
        for name, nanoseconds in parts().items():
            print(f"{name:<32}{nanoseconds:>8,.0f} ns")
        return
    if arguments.gem:
        serve()
        return
    print(f"{'':<32}{'rlx':>12}{'GEM':>12}{'ratio':>8}")
    for name, sides in measure(arguments.rounds).items():
        own, its = sides.get("rlx"), sides.get("gem")
        cells = [f"{value:,.0f}" if value else "" for value in (own, its)]
        print(f"{name:<32}{cells[0]:>12}{cells[1]:>12}{f'{own / its:.2f}' if own and its else '':>8}")
    reached = slow_tool()
    print(f"64 with a tool of 50 ms: {reached:,.0f} steps/s, {reached * SECONDS / NUM_ENVS:.0%} of the ideal")


if __name__ == "__main__":
    main()
