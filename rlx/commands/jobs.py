"""Jobs of `rlx train` and `rlx eval`, for the command line and for Python: each checks a run, then does its work."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rlx.run.run import Run

Job = Callable[["Run"], Any]
Check = Callable[..., None]
"""Refuses a run that cannot work; `is_local` is true if its processes will be on this machine."""


def check_train(run: Run, is_local: bool = True) -> None:
    """Refuse a run that cannot train."""
    from rlx.plan import checks, prospect

    checks.check_train(prospect.Prospect(run=run), is_local)


def train_job(run: Run) -> Any:
    """Train, and return the value that a sweeper optimises."""
    check_train(run)
    from rlx.commands.objective import value_of
    from rlx.training import train

    return value_of(run, train(run))


def check_evaluate(run: Run, is_local: bool = True) -> None:
    """Refuse a run that cannot be evaluated."""
    from rlx.plan import checks, prospect

    checks.check_evaluate(prospect.Prospect(run=run, trains=False), is_local)


def evaluate_job(run: Run) -> Any:
    """Evaluate the run's model as it stands."""
    check_evaluate(run)
    from rlx.run.evaluation_run import evaluate_model

    return evaluate_model(replace(run, steps=0))


def stored_run(folder: Path, words: Sequence[str], recorded: Sequence[str]) -> Run:
    """Build the run in a folder, changed by words, to evaluate its checkpoint; `recorded` are the words to keep."""
    from rlx.hardware.profile import set_threads
    from rlx.settings.build import build_run
    from rlx.settings.check import ConfigError
    from rlx.settings.saved import load_tree

    if any(word.startswith(("model=", "model.path=")) for word in words):
        raise ConfigError("run= evaluates the run's own checkpoint: leave out the model, or run=")
    tree = load_tree(folder, words, tracks=False)
    set_threads(tree["hardware"].get("num_threads", 1))
    return build_run(tree, folder, recorded)


def evaluate_stored(folder: Path, words: Sequence[str], recorded: Sequence[str], begin: Callable[[int], None]) -> Path:
    """Evaluate the newest checkpoint of the run in a folder, and return the folder of the evaluation. `begin` gets the
    number of threads."""
    run = stored_run(folder, words, recorded)
    begin(run.hardware.num_threads)
    check_evaluate(run)
    from rlx.run.evaluation_run import at_newest, evaluate_model

    evaluated, label, notes = at_newest(run)
    evaluate_model(evaluated, label=label, notes=notes)
    return evaluated.folder.absolute()
