"""Two runs on the same held-out tasks: what one has over the other."""

from __future__ import annotations

from pathlib import Path

from rlx.evaluate.evaluate import EvaluateError
from rlx.evaluate.figures import Score, gains, score
from rlx.evaluate.tables import ACCURACY, TOOL_USE, Table, figure_table
from rlx.store import load


def evaluations(folder: Path) -> dict[str, list[Score]]:
    """A run folder's stored evaluations of what it trained, by budget of rounds, the largest first."""
    paths = sorted((folder / "trajectories").glob("eval-*.jsonl"), key=lambda path: -int(path.stem.split("-")[1]))
    if not paths:
        raise EvaluateError(f"{folder} holds no evaluation: finish the run, or give a folder below its evaluations/")
    return {path.stem.split("-")[1]: [score(group) for group in load(path)] for path in paths}


def compare_runs(ours: Path, theirs: Path) -> list[Table]:
    """For each budget that both were evaluated with, what was gained in accuracy and in cost."""
    mine, others = evaluations(ours), evaluations(theirs)
    shared = [rounds for rounds in mine if rounds in others]
    if not shared:
        raise EvaluateError(f"{ours} and {theirs} were evaluated with other budgets: {list(mine)} and {list(others)}")
    return [table for rounds in shared for table in compare_scores(mine[rounds], others[rounds], rounds)]


def compare_scores(mine: list[Score], others: list[Score], rounds: str) -> list[Table]:
    num_samples = min(row.num_samples for row in (*mine, *others))
    found = gains(mine, others, ks=[k for k in (1, 4, 8, 16) if k <= num_samples], noun="eval")
    title = f"Gain over {len(mine)} tasks, {rounds} rounds [95% paired interval]"
    return [figure_table(title, columns, {"gain": found}) for columns in (ACCURACY, TOOL_USE)]
