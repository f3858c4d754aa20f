"""Two runs on the same held-out tasks, or two means over seeds: what one has over the other."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rlx.console import counted
from rlx.evaluate.evaluate import EvaluateError, default_ks
from rlx.evaluate.figures import Score, mean_gains, score
from rlx.evaluate.intervals import Estimate
from rlx.evaluate.summary import plain
from rlx.evaluate.sweep import read_run
from rlx.evaluate.tables import Table, figure_table, pass_columns, use_columns
from rlx.record.folder import CONFIG, TRAJECTORIES
from rlx.record.store import load


def runs_of(folder: Path) -> list[Path]:
    """What a folder stands for: its own run, or, of a sweep over seeds, those right below it."""
    below = sorted(path.parent for path in folder.glob(f"[!.]*/{TRAJECTORIES}") if (path.parent / CONFIG).is_file())
    return [folder] if (folder / TRAJECTORIES).is_dir() or not below else below


def scores_of(run: Path, name: str) -> list[Score]:
    """Of one of its stored evaluations, such as `eval-8`, a row a problem."""
    return [score(group) for group in load(run / TRAJECTORIES / f"{name}.jsonl")]


def budgets_of(run: Path) -> list[str]:
    """Under which a run's stored evaluations of what it trained were played, the largest first."""
    found = (path.stem for path in (run / TRAJECTORIES).glob("eval-*.jsonl"))
    budgets = [name.split("-")[1] for name in found if re.fullmatch(r"eval-([0-9]+|own)", name, re.ASCII)]
    if not budgets:
        raise EvaluateError(f"{run} holds no evaluation: finish the run, or give a folder below its evaluations/")
    return sorted(budgets, key=rounds_in, reverse=True)


def name_rounds(max_rounds: int | None) -> str:
    """A limit of turns in the name of a file; `own` is each environment's own, or none."""
    return "own" if max_rounds is None else str(max_rounds)


def rounds_in(name: str) -> float:
    """The limit that a file's name tells; none at all where each environment had its own."""
    return math.inf if name == "own" else int(name)


@dataclass(frozen=True, kw_only=True)
class Gain:
    """What one run has over another under one budget of rounds, or the mean of some over that of others: `eval/stat` to
    its paired estimate."""

    max_rounds: str
    num_tasks: int
    num_runs: tuple[int, int]
    figures: Mapping[str, Estimate]


def find_gains(ours: Path, theirs: Path) -> list[Gain]:
    """One for each budget that all were evaluated with."""
    runs, others = runs_of(ours), runs_of(theirs)
    budgets = {run: budgets_of(run) for run in (*runs, *others)}
    shared = [rounds for rounds in budgets[runs[0]] if all(rounds in known for known in budgets.values())]
    if not shared:
        told = " and ".join(str(known) for known in (budgets[runs[0]], budgets[others[0]]))
        raise EvaluateError(f"{ours} and {theirs} were evaluated with other budgets: {told}")
    ks = sorted({k for run in budgets for k in asked(run)})
    return [gain_under(rounds, runs, others, ks) for rounds in shared]


def gain_under(rounds: str, ours: Sequence[Path], theirs: Sequence[Path], ks: Sequence[int]) -> Gain:
    mine, other = ([scores_of(run, f"eval-{rounds}") for run in runs] for runs in (ours, theirs))
    return Gain(
        max_rounds=rounds,
        num_tasks=len(mine[0]),
        num_runs=(len(ours), len(theirs)),
        figures=mean_gains(mine, other, ks=ks, noun="eval"),
    )


def asked(folder: Path) -> list[int]:
    """Values of k for which a run reports pass@k."""
    config = read_run(folder).config
    ks, num_samples = config.get("evaluate.ks"), config.get("evaluate.num_samples")
    found = [k for k in ks if isinstance(k, int) and k > 0] if isinstance(ks, list) else []
    return found or list(default_ks(num_samples if isinstance(num_samples, int) and num_samples > 0 else 1))


def gain_values(gain: Gain) -> dict[str, Any]:
    """One of `find_gains` as JSON."""
    return {
        "max_rounds": None if gain.max_rounds == "own" else int(gain.max_rounds),
        "tasks": gain.num_tasks,
        "runs": list(gain.num_runs),
        "gain": plain(gain.figures),
    }


def gain_tables(gain: Gain) -> list[Table]:
    means = "" if gain.num_runs == (1, 1) else f", means of {gain.num_runs[0]} and {gain.num_runs[1]} runs"
    rounds = "the environment's own rounds" if gain.max_rounds == "own" else counted(int(gain.max_rounds), "round")
    title = f"Gain over {counted(gain.num_tasks, 'task')}, {rounds}{means} [95% paired interval]"
    columns = (pass_columns(gain.figures), use_columns([gain.figures]))
    return [figure_table(title, shown, {"gain": gain.figures}) for shown in columns]
