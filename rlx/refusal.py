"""All that is asked of a run before a folder is made or a model loaded; what cannot be is an error of one line."""

from __future__ import annotations

from rlx.fit import check_run
from rlx.inputs import check_inputs, see_inputs
from rlx.run import Run
from rlx.suit import check_settings
from rlx.tasks import check_tasks


def check_train(run: Run, here: bool = True) -> None:
    """Refuse a run that cannot train. `here`: its processes are on this machine."""
    check_inputs(run)
    check_settings(run)
    check_run(run, here=here)
    see_inputs(run, here=here)  # which may fetch, and so comes last of what needs nothing fetched
    check_tasks(run, fetch=here)


def check_evaluate(run: Run, here: bool = True) -> None:
    """Refuse a run that cannot be evaluated."""
    check_inputs(run)
    check_run(run, here=here, trains=False)
    see_inputs(run, here=here)
    check_tasks(run, fetch=here, trains=False)
