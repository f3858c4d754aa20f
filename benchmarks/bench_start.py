"""How long the command line lets one wait: help, a plan, and the first training step.

    python benchmarks/bench_start.py [--repeats 3]

Wall time from starting the process, best of --repeats: to the end of `rlx --help` and `rlx plan`, and, for
`rlx train env=countdown algo=tool_rloo warm_start=none`, to where its first step begins and to where it ends (its line
in metrics.jsonl), after which it is told to stop.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

RLX = (sys.executable, "-m", "rlx")
CHOICE = ("env=countdown", "algo=tool_rloo")
QUIET = {**os.environ, "WANDB_MODE": "disabled"}


def seconds_of(*words: str) -> float:
    start = time.perf_counter()
    subprocess.run((*RLX, *words), env=QUIET, check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - start


def seconds_to_first_step() -> tuple[float, float]:
    """To its beginning and to its end."""
    with tempfile.TemporaryDirectory(prefix="rlx-bench-") as folder:
        words = (*RLX, "train", *CHOICE, "warm_start=none", f"hydra.run.dir={folder}")
        start = time.perf_counter()
        with subprocess.Popen(words, env=QUIET, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as run:
            first = wait_for_line(Path(folder) / "metrics.jsonl", run)
            end = time.perf_counter() - start
            run.terminate()
        return end - json.loads(first)["time/step"], end


def wait_for_line(file: Path, run: subprocess.Popen) -> str:
    while run.poll() is None:
        if file.exists() and "\n" in (text := file.read_text(encoding="utf-8")):
            return text.splitlines()[0]
        time.sleep(0.01)
    raise SystemExit(f"rlx train ended without a step: {run.stderr.read() if run.stderr else ''}")


def main(repeats: int) -> dict[str, object]:
    help_s = min(seconds_of("--help") for _ in range(repeats))
    plan_s = min(seconds_of("plan", *CHOICE) for _ in range(repeats))
    begin_s, end_s = min(seconds_to_first_step() for _ in range(repeats))
    seconds = {"help_s": help_s, "plan_s": plan_s, "first_step_begins_s": begin_s, "first_step_ends_s": end_s}
    return {"bench": "start", **{name: round(value, 2) for name, value in seconds.items()}}


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=3)
    print(json.dumps(main(parser.parse_args().repeats)))
