"""Cost of trees beside flat sampling: CPU time of an action, and the share of the engine's slots that are busy.

Both are played by the policy of a run, on the same tasks, with the run's own algorithm and with as many independent
episodes. `filled` is the mean over ticks of the rows that decode, over the slots or the episodes that may be under way,
whichever is less. Times are process CPU time, and the two take turns in one process.

    OMP_NUM_THREADS=1 python benchmarks/bench_trees.py             # of a run of one step, made first
    OMP_NUM_THREADS=1 python benchmarks/bench_trees.py DIR --slots 16
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import rlx
from rlx.algo.parts import Sampler
from rlx.lab.criticality_command import trained_model
from rlx.rollout.play import Rollout
from rlx.run.run import Run
from rlx.run.trainee import Policy, build_policy
from rlx.settings.compose import build_run
from rlx.settings.saved import load_tree
from rlx.types import Request, Task


class Counted:
    """An engine that counts the rows under way at each tick."""

    def __init__(self, engine: Any, most: int) -> None:
        self.engine, self.most = engine, most
        self.num_live = self.busy = self.ticks = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self.engine, name)

    def add(self, request: Request) -> None:
        self.num_live += 1
        self.engine.add(request)

    def step(self) -> Any:
        self.busy += min(self.num_live, self.most)
        self.ticks += 1
        ended = self.engine.step()
        self.num_live -= len(ended)
        return ended


def play(run: Run, policy: Policy, sampler: Sampler, tasks: Sequence[Task], most: int, repeat: int) -> dict[str, float]:
    """Return CPU time of an action, and the share of busy slots."""
    engine = Counted(policy.engine, most)
    rollout: Rollout = replace(policy, engine=engine).rollout(run.env, run.sampling, ("bench", repeat))
    start = time.process_time()
    groups = rollout.sample(sampler, tasks)
    seconds = time.process_time() - start
    num = sum(len(one.new_turns) for group in groups for one in group.trajectories)
    return {"ms_an_action": 1000 * seconds / num, "filled": engine.busy / (engine.ticks * most), "actions": num}


@contextmanager
def run_or_example(folder: Path | None) -> Iterator[Path]:
    """Yield the folder of a run: the given one, or that of a short run which is made for this."""
    if folder is not None:
        yield folder
        return
    sizes = {"env.hops": [1, 2, 3, 4], "algo.num_prompts": 2, "warm_start.steps": 10, "evaluate.num_tasks": 1}
    with TemporaryDirectory() as place:
        yield rlx.train("env=search_qa", "algo=carl", "track=disabled", sizes, steps=1, folder=f"{place}/run").folder


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path, nargs="?")
    parser.add_argument("--tasks", type=int, default=16)
    parser.add_argument("--slots", type=int, default=16)
    parser.add_argument("--live", type=int, default=4, help="forks of a task under way")
    parser.add_argument("--repeats", type=int, default=3)
    given = parser.parse_args()
    with run_or_example(given.run) as folder:
        measure(folder, given)


def measure(folder: Path, given: argparse.Namespace) -> None:
    run = build_run(load_tree(folder, [f"hardware.num_slots={given.slots}"]), folder)
    policy, tasks = build_policy(run, trained_model(run)), list(islice(run.env.tasks("train", 1), given.tasks))
    tree, flat = run.algo.sample, Sampler(num_episodes=16)
    told: dict[str, list[dict[str, float]]] = {"tree": [], "flat": []}
    for repeat in range(given.repeats):
        told["tree"].append(play(run, policy, tree, tasks, min(given.slots, given.tasks * given.live), repeat))
        told["flat"].append(play(run, policy, flat, tasks, min(given.slots, given.tasks * 16), repeat))
    found = {
        kind: {name: round(statistics.median(one[name] for one in of), 3) for name in of[0]}
        for kind, of in told.items()
    }
    ratio = found["tree"]["ms_an_action"] / found["flat"]["ms_an_action"]
    print(json.dumps({"slots": given.slots, "tasks": given.tasks, **found, "action_ratio": round(ratio, 3)}))


if __name__ == "__main__":
    main()
