"""Check a run before a folder is made or a model loaded; a run that cannot be is an error of one line."""

from __future__ import annotations

from collections.abc import Callable

from rlx.hardware.packages import how_to_get, lacks
from rlx.hardware.ranks import find_place
from rlx.plan.devices import check_devices, check_packages
from rlx.plan.inputs import check_inputs, check_servers
from rlx.plan.objective import check_objective
from rlx.plan.prospect import Prospect
from rlx.plan.recipe import check_recipe
from rlx.plan.search import describe_fitting
from rlx.plan.tasks import check_tasks
from rlx.run.inputs import fetch_inputs
from rlx.run.run import Run
from rlx.settings.check import ConfigError

TENSORBOARD = "tensorboard"
"""Extra that brings TensorBoard."""


def check_train(prospect: Prospect, is_local: bool = True) -> None:
    """Refuse a run that cannot train. `is_local`: its processes are on this machine."""
    check_inputs(prospect)
    check_recipe(prospect)
    check_objective(prospect)
    check_trackers(prospect.run)
    check_start(prospect, is_local)


def check_plan(prospect: Prospect, show: Callable[[], None]) -> None:
    """Refuse a run that cannot be, `show` its plan, and refuse a run that does not fit. Nothing is fetched, and this
    machine need not be the one."""
    check_inputs(prospect)
    check_recipe(prospect)
    check_objective(prospect)
    check_tasks(prospect, fetch=False)
    show()
    check_fit(prospect)


def check_evaluate(prospect: Prospect, is_local: bool = True) -> None:
    """Refuse a run that cannot be evaluated; its prospect does not train."""
    check_inputs(prospect)
    check_start(prospect, is_local)


def check_start(prospect: Prospect, is_local: bool) -> None:
    """Refuse devices, packages, memory, servers and tasks with which the run cannot start."""
    if is_local:
        check_devices(prospect.hardware)
    check_packages(prospect.hardware)
    check_fit(prospect)
    if is_local:
        check_servers(prospect)
    check_tasks(prospect, fetch=fetch_here(prospect.run, is_local))


def check_trackers(run: Run) -> None:
    """Refuse a tracker whose package is missing."""
    wrong = lacks(TENSORBOARD) if run.track.tensorboard else None
    if wrong:
        remedy = f"{how_to_get(TENSORBOARD)}, or track.tensorboard=false"
        raise ConfigError(f"track.tensorboard=true needs TensorBoard, and {wrong}: {remedy}")


def check_fit(prospect: Prospect) -> None:
    """Refuse what its devices' memory cannot hold, with words that fit the same machine where there are some."""
    misfit = prospect.misfit
    if misfit is not None:
        raise type(misfit)(f"{misfit}; {describe_fitting(prospect.fitting)}")


def fetch_here(run: Run, is_local: bool) -> bool:
    """Have what is on a hub fetched, and say so; several processes or another machine do it when they have met."""
    if not is_local or find_place().size > 1:
        return False
    fetch_inputs(run)
    return True
