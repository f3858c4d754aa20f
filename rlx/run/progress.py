"""Progress of a run: the number of its steps, their cost, and the states that the next step continues from.

`run.json` in every checkpoint holds it. Before the first checkpoint the run's own folder has such a file, with the cost
and the warnings of the warm start.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from rlx.algo.parts import State
from rlx.base.regular import read_bounded, write_aside
from rlx.environment import CurriculumState
from rlx.runs.form import parse
from rlx.runs.provenance import Provenance, from_record, to_record
from rlx.runs.summary import Cost

RUN_FILE = "run.json"
"""File of a checkpoint that holds the progress."""


class ProgressError(ValueError):
    """A file of progress that cannot be read; the message names the file and the kind of error."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """Steps that are done, and the states of the next step."""

    step: int = 0
    """Steps that are done."""
    cost: Cost = field(default_factory=Cost)
    memory: State = field(default_factory=dict)
    """State of the stage's algorithm."""
    counts: CurriculumState = field(default_factory=dict)
    """State of a mixture's parts, where that decides which tasks come next (rlx/run/curriculum.py)."""
    provenance: Provenance = field(default_factory=Provenance)
    """Code, packages and data that the steps up to now were made with."""
    warnings: tuple[str, ...] = ()
    """Signs of a mistake that metrics.jsonl does not hold, for summary.json."""
    ahead: tuple[int, ...] = ()
    """Later steps whose rollouts are stored beside the file."""


def write_progress(checkpoint: Path, progress: Progress) -> None:
    """Write the progress into a checkpoint; empty states are left out."""
    more = {"ahead": list(progress.ahead), "memory": progress.memory, "known": progress.counts}
    state = {
        "step": progress.step,
        "cost": asdict(progress.cost),
        "provenance": to_record(progress.provenance),
        "warnings": list(progress.warnings),
        **{key: value for key, value in more.items() if value},
    }
    write_aside(checkpoint / RUN_FILE, json.dumps(state) + "\n")


def read_progress(checkpoint: Path) -> Progress:
    """Read the progress of a checkpoint; ProgressError where that is impossible."""
    path = checkpoint / RUN_FILE
    try:
        return progress_from(parse(read_bounded(path)))
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise ProgressError(f"{path} cannot be read ({type(error).__name__})") from None


def progress_from(state: Mapping[str, Any]) -> Progress:
    """Build the progress from its JSON object."""
    return Progress(
        step=int(state["step"]),
        cost=Cost(**state["cost"]),
        memory=dict(state.get("memory", {})),
        counts=dict(state.get("known", {})),
        provenance=from_record(state["provenance"]),
        warnings=tuple(str(text) for text in state["warnings"]),
        ahead=tuple(int(step) for step in state.get("ahead", [])),
    )
