"""Cost-aware Tool-RLOO: the paper's Tables 2 and 3 with the embedded model, beside the published ones.

    python scripts/reproduce_tool_rloo.py [--seeds 3] [--jobs 2] [--out outputs/reproduce-tool_rloo] [KEY=VALUE ...]

Runs SFT, IPO, RLOO, Tool-SFT and Tool-RLOO on `env=countdown_4to5`, and as a control the same minutes of further
Tool-SFT. Tool-RLOO and the control run once per seed. Evaluation: 500 held-out problems x 16 samples, with eight and
with five rounds; random valid expressions, eight per sample, are the floor. Cut off, it goes on where it was; KEY=VALUE
goes to every run.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from statistics import median

from rlx.console import Screen, duration
from rlx.evaluate.figures import Score, mean_ratios, name_figures, score
from rlx.evaluate.intervals import Estimate
from rlx.evaluate.passk import compare, estimates
from rlx.evaluate.summary import read_summary
from rlx.evaluate.tables import (
    TOOL_USE,
    Column,
    Table,
    accuracy_table,
    figure_table,
    pass_columns,
    read_published,
    to_markdown,
    to_rich,
    to_svg,
    tool_table,
)
from rlx.record.store import load

BASE = ("env=countdown_4to5", "evaluate=paper", "evaluate.num_tasks=500", "track=disabled", "steps=40")
TEXT = ("env.max_rounds=0", "evaluate.max_rounds=[]")
"""One turn and no tool."""
KS = (1, 4, 8, 16)
PUBLISHED = Path(__file__).parent / "published" / "tool_rloo.json"
Figures = Mapping[str, Estimate]


def train(folder: Path, words: Sequence[str]) -> Path:
    """One run in a process of its own, which resumes or repeats what it has; its output goes to a log beside it."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    command = [sys.executable, "-m", "rlx", "train", *words, f"hydra.run.dir={folder}"]
    with open(folder.with_suffix(".log"), "a", encoding="utf-8") as log:
        done = subprocess.run(command, stdout=log, stderr=subprocess.STDOUT, check=False)
    if done.returncode:
        sys.exit(f"{folder.name} failed with exit code {done.returncode}: see {log.name}")
    return folder


def seconds_of(folder: Path) -> list[float]:
    """How long each step took."""
    return [json.loads(line)["time/step"] for line in (folder / "metrics.jsonl").read_text().splitlines()]


def control_steps(trained: Path, control: Path) -> int:
    """Steps of further Tool-SFT that take as long as the RL run, by the median step of each; `control` is a trial."""
    of_trained = seconds_of(trained)
    return max(1, round(len(of_trained) * median(of_trained) / median(seconds_of(control))))


def scores(folders: Sequence[Path], name: str) -> list[list[Score]]:
    """Each seed's scores, task by task."""
    return [[score(group) for group in load(folder / "trajectories" / f"{name}.jsonl")] for folder in folders]


def mean_figures(folders: Sequence[Path], name: str) -> Figures:
    """The mean over seeds of every figure."""
    return name_figures("eval", estimates(mean_ratios(scores(folders, name), KS)))


def mean_gains(ours: Sequence[Path], theirs: list[list[Score]]) -> Figures:
    """The mean over our seeds less that over theirs, paired by problem."""
    return name_figures("eval", compare(mean_ratios(scores(ours, "eval-8"), KS), mean_ratios(theirs, KS)))


def named(found: Figures, noun: str) -> Figures:
    """One noun's figures, as a row of the tables."""
    return {f"eval/{key.split('/', 1)[1]}": value for key, value in found.items() if key.split("/", 1)[0] == noun}


def run_all(out: Path, seeds: int, jobs: int, words: Sequence[str]) -> dict[str, list[Path]]:
    """Every run, `jobs` at a time; the first two make the warm starts for all, which others wait for."""
    base = (*BASE, *words)
    tool = (*base, "algo=tool_rloo")
    further = (*base, "algo=tool_sft", "warm_start=tool_sft")
    with ThreadPoolExecutor(jobs) as pool:
        first = pool.submit(train, out / "tool_rloo-0", (*tool, "seed=0"))
        rloo = pool.submit(train, out / "rloo", (*base, *TEXT, "algo=rloo"))
        ipo = pool.submit(train, out / "ipo", (*base, *TEXT, "algo=ipo"))
        trial = pool.submit(train, out / "trial", (*further, "steps=8", "evaluate.num_tasks=1"))
        others = [pool.submit(train, out / f"tool_rloo-{s}", (*tool, f"seed={s}")) for s in range(1, seeds)]
        steps = f"steps={control_steps(first.result(), trial.result())}"
        controls = [pool.submit(train, out / f"further-{s}", (*further, steps, f"seed={s}")) for s in range(seeds)]
        return {
            "rloo": [rloo.result()],
            "ipo": [ipo.result()],
            "tool_rloo": [first.result(), *(other.result() for other in others)],
            "further": [control.result() for control in controls],
        }


def rows_of(runs: Mapping[str, Sequence[Path]]) -> dict[str, Figures]:
    """The rows of the tables; of several seeds the mean."""

    def of(kind: str) -> Figures:
        return read_summary(runs[kind][0] / "summary.json").metrics

    return {
        "random, 8 tries": named(of("tool_rloo"), "random"),
        "SFT": named(of("rloo"), "start"),
        "IPO": named(of("ipo"), "eval"),
        "RLOO": named(of("rloo"), "eval"),
        "Tool-SFT": named(of("tool_rloo"), "start"),
        "Tool-SFT, 5 rounds": named(of("tool_rloo"), "start@5"),
        "further Tool-SFT": mean_figures(runs["further"], "eval-8"),
        "Tool-RLOO": mean_figures(runs["tool_rloo"], "eval-8"),
        "Tool-RLOO, 5 rounds": mean_figures(runs["tool_rloo"], "eval-5"),
    }


def gain_table(runs: Mapping[str, Sequence[Path]]) -> Table:
    """Paired differences, problem by problem: of each seed over the start, and of their mean over start and control."""
    start, control = scores(runs["tool_rloo"][:1], "start-8"), scores(runs["further"], "eval-8")
    found = {
        f"Tool-RLOO, seed {seed}, over Tool-SFT": mean_gains([folder], start)
        for seed, folder in enumerate(runs["tool_rloo"])
    }
    found["Tool-RLOO, mean of seeds, over Tool-SFT"] = mean_gains(runs["tool_rloo"], start)
    found["further Tool-SFT, mean of seeds, over Tool-SFT"] = mean_gains(runs["further"], start)
    found["Tool-RLOO over further Tool-SFT, means of seeds"] = mean_gains(runs["tool_rloo"], control)
    columns: tuple[Column, ...] = (*pass_columns(next(iter(found.values()))), TOOL_USE[0], TOOL_USE[-1])
    return figure_table("Gain of these seeds, points and reward [95% paired interval over problems]", columns, found)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--out", type=Path, default=Path("outputs/reproduce-tool_rloo"))
    arguments, words = parser.parse_known_args()
    runs = run_all(arguments.out, arguments.seeds, arguments.jobs, words)
    rows, published = rows_of(runs), read_published(PUBLISHED)
    tables = [
        accuracy_table(rows, published=published),
        tool_table(rows, published=published),
        gain_table(runs),
    ]
    costs = {folder.name: read_summary(folder / "summary.json").cost for kind in runs.values() for folder in kind}
    spent = [
        f"| {name} | {cost.tokens:,} | {cost.tool_calls:,} | {duration(cost.seconds)} |" for name, cost in costs.items()
    ]
    text = (
        "\n".join(map(to_markdown, tables))
        + "\nIntervals are over problems (docs/intervals.md); a mean over seeds is of these seeds.\n"
        + "\n| run | tokens sampled | tool calls | time |\n|---|---:|---:|---:|\n"
    )
    (arguments.out / "results.md").write_text(text + "\n".join(spent) + "\n", encoding="utf-8")
    (arguments.out / "results.svg").write_text(to_svg(tables[:2], title="make reproduce-tool_rloo"), encoding="utf-8")
    screen = Screen()
    for table in tables:
        screen.show(to_rich(table))
    screen.say(f"left in {arguments.out}: results.md, results.svg, and a folder per run")


if __name__ == "__main__":
    main()
