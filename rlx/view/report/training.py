"""Training as a report shows it: curves with bands across seeds, entropy, and the time of each stage."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from rlx.base.console import duration
from rlx.base.table import MISSING, Table
from rlx.evaluation.picture import MOST_ROWS, Handles, Panel, colour_of, label_of, picture_svg
from rlx.view.report.cohorts import Cohort
from rlx.view.report.curves import Line, curve_panel, line_through
from rlx.view.report.document import Block, Folded, Notes, Picture, Section

MAIN = {
    "reward/mean": "Reward",
    "success/mean": "Success",
    "eval/pass@1": "Pass@1 of evaluations on the way",
    "entropy/mean": "Entropy, nats a token",
    "episode/turns": "Turns of an episode",
    "tool/calls": "Calls of an episode",
}
"""Metrics of the first curves, with their titles."""
FURTHER = {
    "policy/entropy": "Entropy by the engine",
    "episode/tokens": "Tokens of an episode",
    "turn/invalid": "Share of invalid turns",
    "group/informative": "Share of informative groups",
    "advantage/zero": "Share of tokens without advantage",
    "kl/mean": "KL to the start, a token",
    "gradient/norm": "Norm of the gradient",
    "ratio/clipped": "Share of clipped tokens",
    "critic/explained": "Variance that the critic explains",
}
"""Metrics of the curves that a reader opens."""
TIME, STEP, OTHER = "time/", "time/step", "other"
MOST_STAGES = 8
"""Largest number of stages of a step that are told apart."""
NEEDED = frozenset({*("batch/episodes", "batch/turns", "batch/tokens"), *("episode/errors", "episode/truncated")})
"""Metrics of the rollout card."""
COUNTED = frozenset(
    {"update/turns", "update/selected_turns", "tree/duplicates", "group/informative"}
    | {"batch/groups", "batch/dropped_groups"}
)


def is_wanted(metric: str) -> bool:
    """Tell whether a report reads a metric."""
    return metric in MAIN or metric in FURTHER or metric in NEEDED or metric in COUNTED or metric.startswith(TIME)


def training_section(cohorts: Sequence[Cohort], draws: bool) -> Section:
    """Return the curves of training."""
    if not draws:
        return Section(title="Training", blocks=(ends_table(cohorts),))
    main, further = (
        tuple(curve_pictures(name, titles, cohorts)) for name, titles in (("curves", MAIN), ("further", FURTHER))
    )
    note = (
        f"A line is the mean over seeds of a running mean over {window_of(cohorts)} steps; the band is from the lowest "
        "to the highest seed."
    )
    blocks: tuple[Block, ...] = (*main, Folded(title="More curves", blocks=further), ends_table(cohorts))
    return Section(title="Training", blocks=(Notes(lines=(note,)), *blocks) if main else blocks)


def window_of(cohorts: Sequence[Cohort]) -> int:
    """Return the steps of a running mean: ten, fewer for short runs, or a twentieth of the longest run's."""
    num = max(
        (len(series.steps) for cohort in cohorts for run in cohort.runs for series in run.series.values()), default=0
    )
    return max(1, min(10, num // 6), num // 20)


def curve_pictures(name: str, titles: Mapping[str, str], cohorts: Sequence[Cohort]) -> Iterator[Picture]:
    """Yield a picture for each ten cohorts, with a panel for each metric that any of them says."""
    window, parts = window_of(cohorts), chunks(cohorts)
    for number, part in enumerate(parts, start=1):
        colours = {cohort.name: colour_of(index) for index, cohort in enumerate(part)}
        metric_lines = lines_of(titles, part, window)
        panels = [curve_panel(titles[metric], lines, colours=colours) for metric, lines in metric_lines]
        if panels:
            svg = picture_svg(panels, shares_legend=True)
            yield Picture(name=numbered_name(name, number), title=part_title("Curves", number, len(parts)), svg=svg)


def chunks(cohorts: Sequence[Cohort]) -> list[Sequence[Cohort]]:
    """Return as many cohorts at a time as there are colours."""
    return [cohorts[first : first + MOST_ROWS] for first in range(0, len(cohorts), MOST_ROWS)]


def numbered_name(name: str, number: int) -> str:
    return name if number == 1 else f"{name}-{number}"


def part_title(title: str, number: int, num: int) -> str:
    return title if num == 1 else f"{title}, part {number} of {num}"


def lines_of(metrics: Iterable[str], cohorts: Sequence[Cohort], window: int) -> Iterator[tuple[str, dict[str, Line]]]:
    """Yield the lines of each metric that any cohort says."""
    for metric in metrics:
        each = {cohort.name: line_of_cohort(cohort, metric, window) for cohort in cohorts}
        lines = {name: line for name, line in each.items() if line is not None}
        if lines:
            yield metric, lines


def line_of_cohort(cohort: Cohort, metric: str, window: int) -> Line | None:
    """Return the line of the seeds that say a metric; None where none does."""
    seeds = [run.series[metric] for run in cohort.runs if metric in run.series]
    return line_through(seeds, window) if seeds else None


def ends_table(cohorts: Sequence[Cohort]) -> Table:
    """Return the ends of the main curves, a row for each cohort."""
    window = window_of(cohorts)
    ends = dict(lines_of(MAIN, cohorts, window))
    rows = [(cohort.name, *(end_cell(lines.get(cohort.name)) for lines in ends.values())) for cohort in cohorts]
    header = ("runs", *(MAIN[metric] for metric in ends))
    return Table(title="Ends of the curves", header=header, rows=tuple(rows) if ends else ())


def end_cell(line: Line | None) -> str:
    return MISSING if line is None else f"{line.end.value:.3f}"


@dataclass(frozen=True, kw_only=True)
class Times:
    """Mean seconds of a step, and of each of its stages."""

    step: float
    stages: Mapping[str, float]
    total: float
    """Seconds of all steps of all runs."""


def times_of(cohort: Cohort) -> Times | None:
    """Return the times of a cohort's steps; None where no run says them."""
    runs = [run.series for run in cohort.runs if STEP in run.series]
    if not runs:
        return None
    num = sum(len(series[STEP].steps) for series in runs)
    names = sorted({name for series in runs for name in series if name.startswith(TIME) and name != STEP})[:MOST_STAGES]
    sums = {name: sum(float(np.sum(series[name].values)) for series in runs if name in series) for name in names}
    total = sum(float(np.sum(series[STEP].values)) for series in runs)
    stages = {name.removeprefix(TIME): seconds / num for name, seconds in sums.items()}
    rest = max(0.0, total / num - sum(stages.values()))
    return Times(step=total / num, stages={**stages, OTHER: rest}, total=total)


def time_section(cohorts: Sequence[Cohort], draws: bool) -> Section:
    """Return the time of a step by stage."""
    times_by_cohort = {cohort.name: times for cohort in cohorts if (times := times_of(cohort)) is not None}
    stages = [
        *dict.fromkeys(name for times in times_by_cohort.values() for name in times.stages if name != OTHER),
        OTHER,
    ]
    parts = [
        dict([*times_by_cohort.items()][first : first + MOST_BARS])
        for first in range(0, len(times_by_cohort), MOST_BARS)
    ]
    pictures = [
        Picture(
            name=numbered_name("time", number),
            title=part_title("Mean seconds of a step, by stage", number, len(parts)),
            svg=picture_svg([time_panel(part, stages)]),
        )
        for number, part in enumerate(parts if draws else [], start=1)
    ]
    return Section(title="Time by stage", blocks=(*pictures, time_table(times_by_cohort, stages)))


MOST_BARS = 24
"""Largest number of cohorts in a picture of times."""


def time_table(times_by_cohort: Mapping[str, Times], stages: Sequence[str]) -> Table:
    """Return the seconds of a step and the share of each stage."""
    rows = [
        (name, f"{times.step:.2f}", *(share_cell(times, stage) for stage in stages), duration(times.total))
        for name, times in times_by_cohort.items()
    ]
    header = ("runs", "s a step", *(f"{stage}, %" for stage in stages), "all steps")
    return Table(title="Time of a step", header=header, rows=tuple(rows))


def share_cell(times: Times, stage: str) -> str:
    return f"{100 * times.stages[stage] / times.step:.1f}" if stage in times.stages and times.step else MISSING


def time_panel(times_by_cohort: Mapping[str, Times], stages: Sequence[str]) -> Panel:
    """Return the panel of a bar for each cohort, cut into its stages."""

    def draw(axes: Sequence[Any]) -> Handles:
        (ax,) = axes
        names = [*times_by_cohort]
        handles: list[tuple[Any, str]] = []
        left = np.zeros(len(names))
        for index, stage in enumerate(stages):
            widths = np.array([times_by_cohort[name].stages.get(stage, 0.0) for name in names])
            drawn = ax.barh(range(len(names)), widths, left=left, height=0.65, color=colour_of(index))
            handles.append((drawn, stage))
            left = left + widths
        ax.set_yticks(range(len(names)), [label_of(name, 40) for name in names], fontsize=7)
        ax.invert_yaxis()
        ax.margins(x=0.03)
        ax.set_xlabel("seconds", fontsize=8)
        return handles

    return Panel(
        title="",
        draw=draw,
        num_labels=1,
        label_columns=len(stages),
        width=7.0,
        height=0.9 + 0.24 * len(times_by_cohort),
    )
