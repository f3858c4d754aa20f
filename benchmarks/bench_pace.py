"""64 episodes whose tool takes 50 ms, at each pace, beside the ideal: their decoding, and every turn's tool once.

ideal = seconds of the same episodes inline with a tool that takes nothing + turns x 50 ms
"""

from __future__ import annotations

import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rlx.config.compose import build_run, compose
from rlx.run.agent import build_policy
from rlx.types import Action, Sampling, Start, Step, Task, Text
from rlx.world import Pace

NUM_EPISODES, NUM_TURNS, SECONDS = 64, 6, 0.05
RUNS = 3


@dataclass(frozen=True)
class Slow:
    """A tool that takes its time, so many turns long."""

    seconds: float
    pace: Pace

    def start(self, task: Task) -> Turns:
        return Turns(self.seconds)


@dataclass
class Turns:
    seconds: float
    turn: int = 0

    def step(self, action: Action) -> Step:
        time.sleep(self.seconds)
        self.turn += 1
        return Step(observation=(Text("go on"),), done=self.turn == NUM_TURNS, success=True)


def seconds_of(policy: Any, env: Any) -> float:
    """The best of some runs."""
    tasks = [Task(id=str(i), prompt=(Text("say something"),), data={}) for i in range(NUM_EPISODES)]
    best = float("inf")
    for _ in range(RUNS):
        rollout = policy.rollout(env, Sampling(max_new_tokens=16, max_context=512), ("bench",))
        began = time.perf_counter()
        episodes = rollout.play([Start(task=task, sample=0) for task in tasks])
        best = min(best, time.perf_counter() - began)
        assert all(len(episode.turns) == NUM_TURNS for episode in episodes)
    return best


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        run = build_run(compose(["warm_start=none", "track=disabled"]), Path(folder))
        policy = build_policy(run, run.model)
        ideal = seconds_of(policy, Slow(0.0, "inline")) + NUM_TURNS * SECONDS
        for pace in ("ticks", "live"):
            took = seconds_of(policy, Slow(SECONDS, pace))  # type: ignore[arg-type]
            rate = NUM_EPISODES * NUM_TURNS / took
            print(f"{pace}: {rate:6.0f} turns/s, {ideal / took:.0%} of the ideal (live: at least 90%)")


if __name__ == "__main__":
    main()
