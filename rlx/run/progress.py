"""Progress of a run: the number of its steps, their cost, and the states that the next step continues from.

`run.json` in every checkpoint holds it. `read_progress` reads the files of all earlier versions.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from rlx.algo.parts import State
from rlx.environment import CurriculumState
from rlx.evaluate.summary import Cost
from rlx.regular import read_bounded, write_aside

RUN_FILE = "run.json"
"""File of a checkpoint that holds the progress."""


class ProgressError(ValueError):
    """A file of progress that cannot be read; the message names the file and the kind of error."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """Steps that are done, and what the next one continues from."""

    step: int = 0
    """Steps that are done."""
    cost: Cost = field(default_factory=Cost)
    memory: State = field(default_factory=dict)
    """State of the stage's algorithm."""
    counts: CurriculumState = field(default_factory=dict)
    """State of a mixture's parts, where that decides which tasks come next (rlx/run/curriculum.py)."""
    data: str = ""
    """Edition of the environment's data set; empty where it reads none."""
    ahead: tuple[int, ...] = ()
    """Later steps whose rollouts are stored beside the file."""


def write_progress(checkpoint: Path, progress: Progress) -> None:
    """Write the progress into a checkpoint; empty states are left out."""
    more = {"ahead": list(progress.ahead), "memory": progress.memory, "known": progress.counts, "data": progress.data}
    state = {"step": progress.step, "cost": asdict(progress.cost), **{key: one for key, one in more.items() if one}}
    write_aside(checkpoint / RUN_FILE, json.dumps(state) + "\n")


def read_progress(checkpoint: Path) -> Progress:
    """Read the progress of a checkpoint; ProgressError where that is impossible."""
    path = checkpoint / RUN_FILE
    try:
        return progress_from(json.loads(read_bounded(path)))
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise ProgressError(f"{path} cannot be read ({type(error).__name__})") from None


def progress_from(state: Mapping[str, Any]) -> Progress:
    """Build the progress from its JSON object; the first versions have `step` and `cost` alone."""
    return Progress(
        step=int(state["step"]),
        cost=Cost(**state["cost"]),
        memory=dict(state.get("memory", {})),
        counts=dict(state.get("known", {})),
        data=str(state.get("data", "")),
        ahead=tuple(int(step) for step in state.get("ahead", [])),
    )
