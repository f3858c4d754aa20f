"""Two runs on the same held-out tasks: what one has over the other."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rlx.console import counted
from rlx.evaluate.evaluate import EvaluateError
from rlx.evaluate.figures import Score, gains, score
from rlx.evaluate.intervals import Estimate
from rlx.evaluate.summary import plain
from rlx.evaluate.sweep import read_member
from rlx.evaluate.tables import TOOL_USE, Table, figure_table, pass_columns
from rlx.record.folder import TRAJECTORIES
from rlx.record.store import load


def evaluations(folder: Path) -> dict[str, list[Score]]:
    """A run folder's stored evaluations of what it trained, by budget of rounds, the largest first."""
    found = (folder / TRAJECTORIES).glob("eval-*.jsonl")
    named = [path for path in found if re.fullmatch(r"eval-([0-9]+|own)", path.stem, re.ASCII)]
    paths = sorted(named, key=lambda path: -rounds_in(path.stem.split("-")[1]))
    if not paths:
        raise EvaluateError(f"{folder} holds no evaluation: finish the run, or give a folder below its evaluations/")
    return {path.stem.split("-")[1]: [score(group) for group in load(path)] for path in paths}


def rounds_in(name: str) -> float:
    """The limit that a file's name tells; none at all where each environment had its own."""
    return math.inf if name == "own" else int(name)


@dataclass(frozen=True, kw_only=True)
class Gain:
    """What one run has over another under one budget of rounds: `eval/stat` to its paired estimate."""

    max_rounds: str
    num_tasks: int
    figures: Mapping[str, Estimate]


def find_gains(ours: Path, theirs: Path) -> list[Gain]:
    """One for each budget that both were evaluated with."""
    mine, others = evaluations(ours), evaluations(theirs)
    shared = [rounds for rounds in mine if rounds in others]
    if not shared:
        raise EvaluateError(f"{ours} and {theirs} were evaluated with other budgets: {list(mine)} and {list(others)}")
    ks = sorted({*asked(ours), *asked(theirs)})
    return [
        Gain(
            max_rounds=rounds,
            num_tasks=len(mine[rounds]),
            figures=gains(mine[rounds], others[rounds], ks=ks, noun="eval"),
        )
        for rounds in shared
    ]


def asked(folder: Path) -> list[int]:
    """The ks for which a run was to report pass@k."""
    ks = read_member(folder).config.get("evaluate.ks")
    found = [k for k in ks if isinstance(k, int) and k > 0] if isinstance(ks, list) else []
    return found or [1]


def gain_values(gain: Gain) -> dict[str, Any]:
    """One of `find_gains` as JSON."""
    rounds = None if gain.max_rounds == "own" else int(gain.max_rounds)
    return {"max_rounds": rounds, "tasks": gain.num_tasks, "gain": plain(gain.figures)}


def gain_tables(gain: Gain) -> list[Table]:
    rounds = "the environment's own rounds" if gain.max_rounds == "own" else counted(int(gain.max_rounds), "round")
    title = f"Gain over {counted(gain.num_tasks, 'task')}, {rounds} [95% paired interval]"
    columns = (pass_columns(gain.figures), TOOL_USE)
    return [figure_table(title, shown, {"gain": gain.figures}) for shown in columns]
