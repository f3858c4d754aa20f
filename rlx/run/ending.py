"""The end of a run, whatever the reason: its summary, and how a later start reads it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime

from rlx.environment.world import is_reproducible, reward_range_of
from rlx.hardware.interrupt import InterruptedRunError
from rlx.run.alarm import warnings_of
from rlx.run.execution import Execution
from rlx.runs.folder import METRICS, SUMMARY
from rlx.runs.run import require_run
from rlx.runs.summary import Ending, Estimate, Summary, git_here, write_summary
from rlx.runs.track import read_metrics


def end(execution: Execution, status: Ending, figures: dict[str, Estimate] | None = None) -> Summary:
    """Write summary.json and close what was open."""
    execution.spend()
    summary = Summary(
        status=status,
        metrics=figures or {},
        seed=execution.run.seed,
        provenance=execution.record(),
        git=git_here(),
        cost=execution.progress.cost,
        synchronous=execution.run.hardware.staleness == 0,
        reproducible=is_reproducible(execution.run.env),
        steps=execution.progress.step,
        policy=execution.policy if figures else "",
        evaluate=execution.run.config.get("evaluate", {}) if figures else {},
        reward_range=reward_range_of(execution.run.env, max(execution.run.evaluate.max_rounds, default=None))
        if figures
        else None,
        agents={part: agent for part, (agent,) in execution.run.measured_agents.items() if agent},
        notes=execution.notes,
        warnings=(
            *execution.progress.warnings,
            *warnings_of(execution.run, read_metrics(execution.run.folder / METRICS), figures or {}),
        ),
        ended=f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC",
    )
    if execution.process.ranks.is_first and (status == "finished" or not was_longer(execution)):
        write_summary(execution.run.folder / SUMMARY, summary)
    ends = {name: (figure.value, figure.low, figure.high) for name, figure in summary.metrics.items()}
    for dashboard in execution.dashboards:
        dashboard.finish(ends, int(status != "finished"))
    return summary


def read_finished(execution: Execution) -> Summary | None:
    """Return the summary of a run that is finished with its wanted steps; None if anything is left to do."""
    run = require_run(execution.run.folder)
    return run.summary if run.finished_steps == execution.run.steps else None


def was_longer(execution: Execution) -> bool:
    """Return True if the run in the folder finished once, at this step or later."""
    steps = require_run(execution.run.folder).finished_steps
    return steps is not None and steps >= execution.progress.step


@contextmanager
def record_end(execution: Execution) -> Iterator[None]:
    """However the block ends before its time, summary.json says so."""
    try:
        yield
    except InterruptedRunError:
        end(execution, "interrupted")
        raise
    except BaseException:
        end(execution, "failed")
        raise
