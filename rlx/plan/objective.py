"""Check a run's objective: every name in it is a metric that the run will have (rlx/commands/objective.py)."""

from __future__ import annotations

from rlx.base.limits import MistakeError, near
from rlx.plan.metric_names import is_among
from rlx.plan.prospect import Prospect
from rlx.run.run import Run


class ObjectiveError(MistakeError):
    """An objective that the run does not have; the message suggests names."""


def names_of(run: Run) -> list[str]:
    """Return the objectives as a list."""
    objective = run.objective
    return [] if objective is None else [objective] if isinstance(objective, str) else list(objective)


def check_objective(prospect: Prospect) -> None:
    """Refuse a name that no metric of the run will have."""
    names = names_of(prospect.run)
    if prospect.run.objective is not None and not names:
        raise ObjectiveError("objective=[]: expected the name of a metric, a list of names, or null")
    for name in names:
        if not is_among(name, prospect.metric_names):
            raise ObjectiveError(f"objective={name}: the run has no such metric{near(name, prospect.metric_names)}")
