"""The end of a run, whatever the reason: its summary, and how a later start reads it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

from rlx.evaluate.intervals import Estimate
from rlx.evaluate.summary import Ending, Summary, git_here, read_summary, versions_here, write_summary
from rlx.hardware.interrupt import InterruptedRunError
from rlx.record.folder import METRICS, SUMMARY
from rlx.record.track import read_metrics
from rlx.run.alarm import warnings_of
from rlx.run.life import Life
from rlx.world import is_reproducible, reward_range_of


def end(life: Life, status: Ending, figures: dict[str, Estimate] | None = None) -> Summary:
    """Write summary.json and close what was open."""
    life.spend()
    summary = Summary(
        status=status,
        metrics=figures or {},
        seed=life.run.seed,
        versions=versions_here(),
        git=git_here(),
        cost=life.progress.cost,
        synchronous=life.run.hardware.staleness == 0,
        reproducible=is_reproducible(life.run.env),
        steps=life.progress.step,
        policy=life.policy if figures else "",
        evaluate=life.run.config.get("evaluate", {}) if figures else {},
        reward_range=reward_range_of(life.run.env, max(life.run.evaluate.max_rounds, default=None))
        if figures
        else None,
        agents={part: agent for part, (agent,) in life.run.measured_agents.items() if agent},
        notes=life.notes,
        warnings=(*life.warnings, *warnings_of(life.run, read_metrics(life.run.folder / METRICS), figures or {})),
        ended=f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC",
    )
    if life.process.ranks.is_first and (
        status == "finished" or finished_before(life.run.folder)[0] < life.progress.step
    ):
        write_summary(life.run.folder / SUMMARY, summary)
    ends = {name: (figure.value, figure.low, figure.high) for name, figure in summary.metrics.items()}
    for dashboard in life.dashboards:
        dashboard.finish(ends, int(status != "finished"))
    return summary


def read_finished(life: Life) -> Summary | None:
    """The summary of a run that is finished as it is wanted; None where something is left to do."""
    steps, summary = finished_before(life.run.folder)
    return summary if steps == life.run.steps else None


def finished_before(folder: Path) -> tuple[int, Summary | None]:
    """The steps and the summary of the run that was finished in a folder; -1 and None where none was."""
    path = folder / SUMMARY
    summary = read_summary(path) if path.exists() else None
    if summary is None or summary.status != "finished":
        return -1, None
    lines = read_metrics(folder / METRICS) if summary.steps is None else []
    return (lines[-1]["step"] if lines else summary.steps or 0), summary


@contextmanager
def record_end(life: Life) -> Iterator[None]:
    """However the block ends before its time, summary.json says so."""
    try:
        yield
    except InterruptedRunError:
        end(life, "interrupted")
        raise
    except BaseException:
        end(life, "failed")
        raise
