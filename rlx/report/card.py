"""The rollout card: episodes played, failed, skipped and dropped with the rule; seeds, variance, budget, versions."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Iterable, Sequence
from statistics import fmean, stdev

import numpy as np

from rlx.console import counted, duration, one_line
from rlx.evaluate.tables import MISSING, Table, number_cell
from rlx.record.folder import COMMAND, read_json
from rlx.report.cohorts import Cohort
from rlx.report.document import Folded, Notes, Section
from rlx.report.panels import axis_of
from rlx.report.runs import RunRecord

SPREAD_OF = ("pass@1", "reward", "tool/calls", "episode/turns")
"""Figures whose spread over seeds is shown."""


def card_section(cohorts: Sequence[Cohort]) -> Section:
    """Return the tables of what was played and spent, with the rules."""
    runs = [run for one in cohorts for run in one.runs]
    blocks = (
        rollout_table(runs),
        Notes(lines=tuple(rules_of(runs))),
        seeds_table(cohorts),
        budget_table(runs),
        Notes(lines=tuple(versions_of(runs))),
        Folded(title="Notes and warnings of the runs", blocks=(Notes(lines=tuple(remarks_of(runs))),)),
        Folded(title="Commands", blocks=(commands_table(runs),)),
    )
    return Section(title="Rollout card", blocks=blocks)


def total(run: RunRecord, metric: str) -> float | None:
    """Return the sum of a metric over the steps; None where no step says it."""
    return float(np.sum(run.series[metric].values)) if metric in run.series else None


def weighted(run: RunRecord, share: str, by: str) -> float | None:
    """Return the sum over steps of a share times an amount; None where no step says both."""
    if share not in run.series or by not in run.series:
        return None
    both, left, right = np.intersect1d(run.series[share].steps, run.series[by].steps, return_indices=True)
    return float(np.sum(run.series[share].values[left] * run.series[by].values[right])) if len(both) else None


def count_cell(value: float | None) -> str:
    return MISSING if value is None else f"{round(value):,}"


def rollout_table(runs: Sequence[RunRecord]) -> Table:
    """Return the episodes and turns of training, a row for each run."""
    episodes = ("episodes played", "failed", "cut off", "skipped groups, %")
    header = ("run", "steps", *episodes, "turns played", "turns dropped")
    return Table(title="Rollouts of training", header=header, rows=tuple(map(rollout_row, runs)))


def rollout_row(run: RunRecord) -> tuple[str, ...]:
    episodes, turns = total(run, "batch/episodes"), total(run, "batch/turns")
    learned = total(run, "update/turns")
    failed, cut = (weighted(run, f"episode/{what}", "batch/episodes") for what in ("errors", "truncated"))
    dropped = None if turns is None or learned is None else max(0.0, turns - learned)
    counts = [*map(count_cell, (episodes, failed, cut)), skipped_cell(run), *map(count_cell, (turns, dropped))]
    return (run.name, steps_cell(run), *counts)


def steps_cell(run: RunRecord) -> str:
    """Return the steps done, of those that the configuration asks for."""
    done = max(run.columns.last, (run.summary.steps or 0) if run.summary else 0)
    asked = run.config.get("steps")
    return f"{done:,} of {asked:,}" if isinstance(asked, int) and asked != done else f"{done:,}"


def skipped_cell(run: RunRecord) -> str:
    """Return the share of groups whose rewards are all equal."""
    found = run.series.get("group/informative")
    return MISSING if found is None else f"{100 * (1 - float(np.mean(found.values))):.1f}"


FAILED = (
    "Failed: the episode ended in an exception. It is not trained on; in an evaluation it counts as a failed attempt. "
    "A run stops where a larger share of a step's episodes fails than max_error_share"
)
CUT = (
    "Cut off: a limit of turns or the context's end closed the episode, which is trained on. The count is from the "
    "share of episodes begun afresh."
)
SKIPPED = (
    "Skipped groups: all episodes of a task earned the same, so an algorithm that compares within the group credits "
    "nothing."
)
DROPPED = "Turns dropped: turns in which credit kept no token. Turns of failed episodes are not among those played."


def rules_of(runs: Sequence[RunRecord]) -> Iterable[str]:
    """Yield the rules by which episodes, groups and turns do not count."""
    shares = sorted({str(run.config["max_error_share"]) for run in runs if "max_error_share" in run.config})
    yield f"{FAILED}{f' ({listed(shares)})' if shares else ''}."
    yield from (CUT, SKIPPED, DROPPED)
    for key, text in RULES.items():
        named = [run.name for run in runs if run.config.get(key)]
        if named:
            yield f"{text} ({key}): {listed(named)}."


RULES = {
    "algo.drop_equal": "Groups whose episodes earned the same are left out of the loss",
    "algo.num_turns": "A step keeps the first tasks that have so many turns together and drops the others",
    "hardware.staleness": "Rollouts may lag behind the policy that they train",
}
"""Settings that drop episodes, and what they do."""
MOST_NAMED = 6


def listed(names: Sequence[str]) -> str:
    more = f" and {len(names) - MOST_NAMED} more" if len(names) > MOST_NAMED else ""
    return ", ".join(names[:MOST_NAMED]) + more


def seeds_table(cohorts: Sequence[Cohort]) -> Table:
    """Return the spread over seeds of the figures of each cohort with several runs."""
    rows = [row for one in cohorts if len(one.judged) > 1 for stat in SPREAD_OF for row in spread_rows(one, stat)]
    header = ("runs", "figure", "seeds", "mean", "standard deviation", "least", "most", "of each seed")
    return Table(title="Spread over seeds", header=header, rows=tuple(rows))


def spread_rows(cohort: Cohort, stat: str) -> list[tuple[str, ...]]:
    """Return a row of the values of the seeds, where all have the figure."""
    summaries = [run.summary for run in cohort.judged if run.summary is not None]
    found = [one.metrics[f"eval/{stat}"].value for one in summaries if f"eval/{stat}" in one.metrics]
    if len(found) < len(summaries):
        return []
    column = axis_of(stat)
    cells = [number_cell(x, column) for x in (fmean(found), stdev(found), min(found), max(found))]
    each = ", ".join(f"{one.seed}: {number_cell(x, column)}" for one, x in zip(summaries, found, strict=True))
    return [(cohort.name, column.title, str(len(found)), *cells, each)]


def budget_table(runs: Sequence[RunRecord]) -> Table:
    """Return the status, the seed and the cost of each run, and the sum."""
    rows = [budget_row(run) for run in runs]
    costs = [run.summary.cost for run in runs if run.summary is not None]
    if len(costs) > 1:
        whole = sum(costs[1:], start=costs[0])
        spent = (duration(whole.seconds), f"{whole.device_hours:.2f}", f"{whole.tokens:,}", f"{whole.tool_calls:,}")
        rows.append((f"all {counted(len(costs), 'run')} with a summary", "", "", "", *spent))
    header = ("run", "status", "seed", "devices", "time", "device-hours", "tokens sampled", "tool calls")
    return Table(title="Budget: training and evaluation", header=header, rows=tuple(rows))


def budget_row(run: RunRecord) -> tuple[str, ...]:
    seed = run.summary.seed if run.summary is not None else run.config.get("seed", MISSING)
    head = (run.name, run.status, str(seed), devices_cell(run))
    if run.summary is None:
        return (*head, *[MISSING] * 4)
    cost = run.summary.cost
    return (*head, duration(cost.seconds), f"{cost.device_hours:.2f}", f"{cost.tokens:,}", f"{cost.tool_calls:,}")


def devices_cell(run: RunRecord) -> str:
    """Return the kind of device, with the number of processes where there are several."""
    device, num = (run.config.get(f"hardware.{key}") for key in ("device", "num_processes"))
    if not isinstance(device, str):
        return MISSING
    return f"{num} x {device}" if isinstance(num, int) and num > 1 else device


def versions_of(runs: Sequence[RunRecord]) -> Iterable[str]:
    """Yield each commit and each set of versions with the number of its runs."""
    summaries = [run.summary for run in runs if run.summary is not None]
    commits = Counter(commit_text(one.git.commit, one.git.dirty) if one.git else "no commit" for one in summaries)
    for commit, num in commits.items():
        yield f"{commit}: {counted(num, 'run')}"
    versions = Counter(", ".join(f"{name} {text}" for name, text in one.versions.items()) for one in summaries)
    for text, num in versions.items():
        yield f"Versions: {text} ({counted(num, 'run')})"
    open_runs = [run.name for run in runs if run.summary is None]
    if open_runs:
        yield f"Without a summary, so without commit and versions: {listed(open_runs)}"


def commit_text(commit: str, dirty: bool) -> str:
    return f"Commit {one_line(commit, 40)}{' with changes that are not committed' if dirty else ''}"


def remarks_of(runs: Sequence[RunRecord]) -> Iterable[str]:
    """Yield the notes and the warnings of each run."""
    for run in runs:
        if run.summary is not None:
            yield from (f"{run.name}: {text}" for text in (*run.summary.notes, *run.summary.warnings))


def commands_table(runs: Sequence[RunRecord]) -> Table:
    rows = [(run.name, command) for run in runs if (command := command_of(run))]
    return Table(title="Commands", header=("run", "command"), rows=tuple(rows))


def command_of(run: RunRecord) -> str:
    """Return the command line that a run was started with; empty where it cannot be read."""
    words = read_json(run.folder / COMMAND).get("words")
    return f"rlx train {shlex.join(map(str, words))}" if isinstance(words, list) and words else ""
