"""All that is asked of a run before a folder is made or a model loaded; what cannot be is an error of one line."""

from __future__ import annotations

from collections.abc import Callable

from rlx.evaluate.benchmarks import BenchmarkError
from rlx.hardware.packages import how_to_get, lacks
from rlx.hardware.ranks import find_place
from rlx.preflight.fit import check_fit, check_run
from rlx.preflight.inputs import check_cache, check_inputs, check_model, check_samplers, check_servers
from rlx.preflight.recipe import check_settings
from rlx.preflight.tasks import check_tasks
from rlx.run.inputs import fetch_inputs
from rlx.run.run import Run

EXTRA = "benchmarks"
"""Extra that brings lm-evaluation-harness."""


def check_train(run: Run, here: bool = True) -> None:
    """Refuse a run that cannot train. `here`: its processes are on this machine."""
    check_inputs(run)
    check_samplers(run)
    check_settings(run)
    check_run(run, here=here)
    if here:
        check_servers(run)
    check_tasks(run, fetch=fetch_here(run, here))


def check_plan(run: Run, tell: Callable[[], None]) -> None:
    """Refuse what cannot be, `tell` the plan, and refuse what it shows does not fit; nothing is fetched, and this
    machine need not be the one."""
    check_inputs(run)
    check_samplers(run)
    check_settings(run)
    check_tasks(run, fetch=False)
    tell()
    check_fit(run)


def check_evaluate(run: Run, here: bool = True) -> None:
    """Refuse a run that cannot be evaluated."""
    check_inputs(run)
    check_run(run, here=here, trains=False)
    if here:
        check_servers(run)
    check_tasks(run, fetch=fetch_here(run, here), trains=False)


def check_benchmarks(run: Run, here: bool = True) -> None:
    """Refuse benchmarks without their packages, and a model that cannot be loaded."""
    require_harness()
    check_model(run.model)
    check_cache()


def require_harness() -> None:
    """Refuse benchmarks where the extra is missing."""
    wrong = lacks(EXTRA)
    if wrong:
        raise BenchmarkError(f"benchmark= needs lm-evaluation-harness, and {wrong}: {how_to_get(EXTRA)}")


def fetch_here(run: Run, here: bool) -> bool:
    """Have what is on a hub fetched, and say so; several processes or another machine do it when they have met."""
    if not here or find_place().size > 1:
        return False
    fetch_inputs(run)
    return True
