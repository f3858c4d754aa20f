"""64 episodes whose tool takes 50 ms, at each pace, beside the ideal: their decoding, and every turn's tool once.

The ideal is the seconds of the same episodes inline with a tool that takes nothing, plus turns x 50 ms.

In ticks the tool is waited for as many as it is given; what overlaps with decoding may beat the ideal.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from rlx.environment import Environment, Episode, Pace
from rlx.run.trainee import build_policy
from rlx.settings.compose import build_run, compose
from rlx.types import Action, Sampling, Start, Step, Task, Text

NUM_EPISODES, NUM_TURNS, SECONDS = 64, 6, 0.05
RUNS = 4
TICKS = (1, 2, 4, 8)


@dataclass(frozen=True)
class Slow(Environment):
    """A tool that takes its time, so many turns long."""

    seconds: float
    pace: Pace

    def tasks(self, split: str, seed: int) -> Iterator[Task]:
        return iter(())

    def start(self, task: Task) -> Turns:
        return Turns(self.seconds)


@dataclass
class Turns(Episode):
    seconds: float
    turn: int = 0

    def step(self, action: Action) -> Step:
        time.sleep(self.seconds)
        self.turn += 1
        return Step(observation=(Text("go on"),), done=self.turn == NUM_TURNS, success=True)


def seconds_of(policy: Any, env: Any, tool_ticks: int = 1) -> float:
    tasks = [Task(id=str(i), prompt=(Text("say something"),), data={}) for i in range(NUM_EPISODES)]
    policy = replace(policy, hardware=replace(policy.hardware, tool_ticks=tool_ticks))
    rollout = policy.rollout(env, Sampling(max_new_tokens=16, max_context=512), ("bench",))
    began = time.perf_counter()
    episodes = rollout.play([Start(task=task, sample=0) for task in tasks])
    assert all(len(episode.turns) == NUM_TURNS for episode in episodes)
    return time.perf_counter() - began


def main() -> None:
    ways: dict[str, tuple[Any, int]] = {"inline, a tool that takes nothing": (Slow(0.0, "inline"), 1)}
    ways |= {f"ticks, tool_ticks={ticks}": (Slow(SECONDS, "ticks"), ticks) for ticks in TICKS}
    ways |= {"live": (Slow(SECONDS, "live"), 1)}
    with tempfile.TemporaryDirectory() as folder:
        run = build_run(compose(["warm_start=none", "track=disabled"]), Path(folder))
        policy = build_policy(run, run.model)
        rounds = [{name: seconds_of(policy, *way) for name, way in ways.items()} for _ in range(RUNS)]
    free, *best = (min(found[name] for found in rounds) for name in ways)
    ideal = free + NUM_TURNS * SECONDS
    print(f"{next(iter(ways))}: {free:.2f} s; the ideal: {ideal:.2f} s")
    for name, took in zip(list(ways)[1:], best):
        print(f"{name}: {NUM_EPISODES * NUM_TURNS / took:6.0f} turns/s, {ideal / took:.0%} of the ideal")


if __name__ == "__main__":
    main()
