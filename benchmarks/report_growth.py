"""Growth of `rlx report`: runs, seeds, steps and tasks of an evaluation, at 1, 4 and 16 times their number.

    python benchmarks/report_growth.py [NAME ...]

A NAME is the beginning of a case's, such as `steps`. The folders are written first. Each size runs in a process of its
own: seconds of the processor, and growth of its peak resident set. gym_growth.py says what an exponent is.
"""

from __future__ import annotations

import gc
import json
import sys
import tempfile
from collections.abc import Mapping
from multiprocessing import get_context
from pathlib import Path
from random import Random

import yaml
from bench_update import resident
from gym_growth import SIZES, exponent, spent

from rlx.commands.report import write_runs
from rlx.evaluation.figures import figures, gains, score
from rlx.runs.folder import MARK
from rlx.runs.store import save
from rlx.runs.summary import Summary, write_summary
from rlx.types import Action, Completion, Group, Task, Trajectory, Turn

METRICS = (
    *("reward/mean", "success/mean", "entropy/mean", "episode/turns", "episode/tokens", "tool/calls", "turn/invalid"),
    *("group/informative", "gradient/norm", "ratio/clipped", "batch/episodes", "batch/turns", "update/turns"),
    *("time/rollout", "time/update", "time/step", *(f"env/metric_{number}" for number in range(30))),
)
SMALL = {"arms": 2, "seeds": 2, "steps": 100, "tasks": 20}
"""Numbers of everything else."""
CASES: Mapping[str, int] = {"arms": 4, "seeds": 2, "steps": 1000, "tasks": 25}
"""Smallest number of what grows: runs with other settings, runs with other seeds, steps, and tasks of 16 samples."""


def group_of(number: int, random: Random) -> Group:
    """One task's sixteen episodes of four turns."""
    said = Completion(token_ids=tuple(range(40)), logprobs=(-0.5,) * 40, stop="stop")
    turns = tuple(Turn(prompt_ids=(1,) * 60, completion=said, action=Action(kind="answer", text="x")) for _ in range(4))
    task = Task(id=str(number), prompt=(), data={})
    episodes = (
        Trajectory(task=task, sample=sample, turns=turns, status="done", success=random.random() < 0.5)
        for sample in range(16)
    )
    return Group(task=task, trajectories=tuple(episodes))


def write_run(folder: Path, arm: int, seed: int, steps: int, tasks: int) -> None:
    """Write a run's folder."""
    folder.mkdir(parents=True)
    random = Random(f"{arm} {seed}")
    settings = {"num_tasks": tasks, "num_samples": 16, "ks": [1, 4, 16]}
    config = {"seed": seed, "steps": steps, "algo": {"lr": arm}, "evaluate": settings}
    (folder / "config.yaml").write_text(MARK + yaml.safe_dump(config))
    with (folder / "metrics.jsonl").open("w") as file:
        for step in range(1, steps + 1):
            file.write(json.dumps({"step": step, **{name: random.random() for name in METRICS}}) + "\n")
    tables = {noun: [group_of(number, random) for number in range(tasks)] for noun in ("eval", "start")}
    for noun, groups in tables.items():
        save(folder / "trajectories" / f"{noun}-own.jsonl", groups, max_rounds=None)
    ours, start = ([score(group) for group in groups] for groups in tables.values())
    found = {**figures(start, ks=[1, 4, 16], noun="start"), **figures(ours, ks=[1, 4, 16])}
    found |= gains(ours, start, ks=[1, 4, 16])
    write_summary(folder / "summary.json", Summary(status="finished", seed=seed, steps=steps, metrics=found))


def write_all(folder: Path, arms: int, seeds: int, steps: int, tasks: int) -> None:
    for arm in range(arms):
        for seed in range(seeds):
            write_run(folder / f"arm_{arm}" / str(seed), arm, seed, steps, tasks)


def measure(folder: Path) -> tuple[float, float]:
    """Return seconds and megabytes of a report."""
    before, began = resident("VmRSS"), spent()
    Path("/proc/self/clear_refs").write_text("5")
    write_runs([folder / "runs"], None, folder / "out")
    return spent() - began, resident("VmHWM") - before


def main() -> None:
    with tempfile.TemporaryDirectory() as place:
        warm = Path(place) / "warm"
        write_all(warm / "runs", 1, 1, 2, 2)
        write_runs([warm / "runs"], None, warm / "out")  # what is imported here is not measured
        gc.freeze()
        print("| what grows | from, to | s | exponent | MB | exponent |\n|---|---|---|---|---|---|")
        with get_context("fork").Pool(1, maxtasksperchild=1) as pool:
            for name, least in CASES.items():
                if name.startswith(tuple(sys.argv[1:] or [""])):
                    numbers = tuple(least * size for size in SIZES)
                    for number in numbers:
                        write_all(Path(place) / f"{name}-{number}" / "runs", **{**SMALL, name: number})
                    found = [pool.apply(measure, (Path(place) / f"{name}-{number}",)) for number in numbers]
                    seconds, memory = zip(*found)
                    cells = [", ".join(f"{value:.2g}" for value in values) for values in (seconds, memory)]
                    powers = exponent(numbers, seconds, 0.05), exponent(numbers, memory, 2)
                    ends = f"{numbers[0]:,}, {numbers[-1]:,}"
                    print(f"| {name} | {ends} | {cells[0]} | {powers[0]} | {cells[1]} | {powers[1]} |", flush=True)


if __name__ == "__main__":
    main()
