"""A step of Tool-RLOO on two processes beside the same step on one, and what a checkpoint costs.

    OMP_NUM_THREADS=1 python benchmarks/bench_ranks.py [--repeats 5] [--zero-stage 2] [--prompts 16] [--samples 16]

The model is nano as shipped; both sides play and learn from the same tasks with DeepSpeed on
the CPU. Seconds are the wall clock's, which is right where each process has a core of its own; where it has not, the
process seconds beside them (the busiest rank's, waiting left out) say what it would have taken.
"""

from __future__ import annotations

import argparse
import json
import os
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from rlx.hardware.packages import lacks

WORDS = ("env=countdown", "algo=tool_rloo", "warm_start=none", "track=disabled", "hardware=cpux2")


def words_of(size: int, arguments: argparse.Namespace) -> list[str]:
    return [
        *WORDS,
        f"hardware.num_processes={size}",
        f"hardware.zero_stage={arguments.zero_stage}",
        f"algo.num_prompts={arguments.prompts}",
        f"algo.num_samples={arguments.samples}",
        f"steps={arguments.repeats + 1}",
    ]


def work(size: int, folder: Path, arguments: argparse.Namespace) -> None:
    """One rank: time steps and checkpoints; rank 0 prints what came of all."""
    from rlx.base.console import Screen
    from rlx.run.execution import open_run, save_checkpoint
    from rlx.run.trainee import build_trainee
    from rlx.settings.compose import build_run, compose
    from rlx.training import open_pipeline, take_step

    run = build_run(compose(words_of(size, arguments)), folder)
    with open_run(run, Screen(silent=True)) as execution, ExitStack() as stack:
        agent = build_trainee(execution.run, execution.run.model, execution.process.ranks)
        rollouts = stack.enter_context(open_pipeline(execution, agent, 0, {}))
        rows: list[dict[str, float]] = []
        for step in range(arguments.repeats + 1):
            execution.process.ranks.wait()
            began, used = time.monotonic(), time.process_time()
            metrics, *_ = take_step(execution, agent, step, rollouts)
            row = {"busy": time.process_time() - used, "step": time.monotonic() - began}
            row |= {name: metrics[f"time/{name}"] for name in ("rollout", "update")}
            began, used = time.monotonic(), time.process_time()
            save_checkpoint(execution, agent, step + 1)
            row |= {"save": time.monotonic() - began, "busy save": time.process_time() - used}
            rows.append(row)
        told = execution.process.ranks.gather(rows[1:])
        if execution.process.ranks.is_first:
            found = [{name: max(rows[i][name] for rows in told) for name in told[0][0]} for i in range(len(told[0]))]
            print(json.dumps({name: statistics.median(row[name] for row in found) for name in found[0]}))


def measure(size: int, arguments: argparse.Namespace) -> dict[str, float]:
    """Start the ranks, and read what rank 0 prints."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, __file__, *sys.argv[1:], "--worker", str(size), "--folder", folder]
        common = {**os.environ, "WORLD_SIZE": str(size), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
        ranks = [
            subprocess.Popen(
                command, env={**common, "RANK": str(rank), "LOCAL_RANK": str(rank)}, stdout=subprocess.PIPE, text=True
            )
            for rank in range(size)
        ]
        said = [rank.communicate()[0] for rank in ranks]
    return json.loads(said[0].splitlines()[-1])


def report(found: dict[int, dict[str, float]]) -> None:
    one, two = found[1], found[2]
    print(f"{'seconds':>12}  one rank  two ranks  ratio")
    for name in one:
        print(f"{name:>12}  {one[name]:8.2f}  {two[name]:9.2f}  {two[name] / one[name]:5.2f}")
    for size, row in found.items():
        share = row["busy save"] / (10 * row["busy"])
        print(f"checkpoint, every 10 steps, {size} rank(s): {100 * share:.1f}% of a step's process seconds")


def main() -> Any:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--zero-stage", type=int, default=2, choices=range(4))
    parser.add_argument("--prompts", type=int, default=16)
    parser.add_argument("--samples", type=int, default=16)
    parser.add_argument("--worker", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if lacks("deepspeed"):
        return print(f"bench_ranks: left out, {lacks('deepspeed')}; `make setup-cluster` brings it")
    if arguments.worker:
        return work(arguments.worker, arguments.folder, arguments)
    return report({size: measure(size, arguments) for size in (1, 2)})


if __name__ == "__main__":
    main()
