"""The rollout card: episodes played, failed, skipped and dropped with the rule; seeds, variance, budget, versions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from shlex import quote
from statistics import fmean, stdev

import numpy as np

from rlx.base.console import duration, format_count, one_line
from rlx.base.table import MISSING, Table
from rlx.evaluation.tables import number_cell
from rlx.runs.command import command_line
from rlx.runs.folder import COMMAND
from rlx.runs.provenance import conflicts, main_versions
from rlx.runs.series import Series
from rlx.runs.single_files import read_json
from rlx.view.report.cohorts import Cohort
from rlx.view.report.document import Code, Folded, Notes, Section
from rlx.view.report.panels import axis_of
from rlx.view.report.runs import RunRecord

SPREAD_OF = ("pass@1", "reward")
"""Figures whose spread over seeds is shown."""
TURNS = ("batch/turns", "update/selected_turns", "update/turns")
"""Played turns, turns selected by the algorithm's rule, and trained turns."""


def card_section(cohorts: Sequence[Cohort]) -> Section:
    """Return the tables of what was played and spent, with the rules."""
    runs = [run for cohort in cohorts for run in cohort.runs]
    each = (rollout_table({run.name: [run] for run in runs}), budget_table({run.name: [run] for run in runs}))
    is_shared = len(cohorts) < len(runs)
    together = {cohort.name: cohort.runs for cohort in cohorts}
    blocks = (
        rollout_table(together),
        Notes(lines=tuple(rules_of(runs))),
        seeds_table(cohorts),
        budget_table(together),
        Notes(lines=tuple(versions_of(runs))),
        Folded(title="Each run", blocks=each if is_shared else ()),
        Folded(title="Notes and warnings of the runs", blocks=(Notes(lines=tuple(remarks_of(runs))),)),
        Folded(title="Commands", blocks=(Code(title="Commands", lines=tuple(commands_of(runs))),)),
    )
    return Section(title="Rollout card", blocks=blocks)


Runs = Sequence[RunRecord]


def total(runs: Runs, metric: str) -> float | None:
    """Return the sum of a metric over all steps; None where no step says it."""
    series_values = [run.series[metric].values for run in runs if metric in run.series]
    return sum(float(np.sum(values)) for values in series_values) if series_values else None


def weighted(runs: Runs, share: str, by: str) -> float | None:
    """Return the sum over all steps of a share times an amount; None where no step says both."""
    products = [product(run.series[share], run.series[by]) for run in runs if {share, by} <= {*run.series}]
    return sum(products) if products else None


def product(share: Series, amount: Series) -> float:
    """Return the sum of the products at the steps that say both."""
    _, left, right = np.intersect1d(share.steps, amount.steps, return_indices=True)
    return float(np.sum(share.values[left] * amount.values[right]))


def count_cell(value: float | None) -> str:
    return MISSING if value is None else f"{round(value):,}"


def rollout_table(groups: Mapping[str, Runs]) -> Table:
    """Return the episodes and turns of training, a row for each group of runs."""
    episodes = ("episodes played", "failed", "cut off")
    groups_of = ("groups", "skipped groups", "skipped, %", "dropped groups")
    header = ("runs", "steps", *episodes, *groups_of, *("turns played", "turns selected", "turns trained"))
    rows = [rollout_row(name, runs) for name, runs in groups.items()]
    return Table(title=f"Rollouts of training{summed(groups)}", header=header, rows=tuple(rows))


def summed(groups: Mapping[str, Runs]) -> str:
    """Return the end of the title of a table in which any row is of several runs."""
    return ", sums over seeds" if any(len(runs) > 1 for runs in groups.values()) else ""


def rollout_row(name: str, runs: Runs) -> tuple[str, ...]:
    episodes, *turns = (total(runs, metric) for metric in ("batch/episodes", *TURNS))
    failed, cut = (weighted(runs, f"episode/{stat}", "batch/episodes") for stat in ("errors", "truncated"))
    counts = [*map(count_cell, (episodes, failed, cut)), *group_cells(runs), *map(count_cell, turns)]
    return (name, ", ".join(dict.fromkeys(map(steps_cell, runs))), *counts)


def group_cells(runs: Runs) -> tuple[str, ...]:
    """Return the number of groups, those with equal rewards as a number and a share, and those that were dropped."""
    groups, informative = total(runs, "batch/groups"), weighted(runs, "group/informative", "batch/groups")
    skipped = None if groups is None or informative is None else max(0.0, groups - informative)
    return (count_cell(groups), count_cell(skipped), skipped_cell(runs), dropped_cell(runs))


def dropped_cell(runs: Runs) -> str:
    """Return the number of groups behind a step's turns; 0 where no run counts turns."""
    count = total(runs, "batch/dropped_groups")
    is_full = not any(run.settings.get("algo.num_turns") for run in runs)
    return count_cell(0.0 if count is None and is_full else count)


def steps_cell(run: RunRecord) -> str:
    """Return the steps done, of those that the configuration asks for."""
    done = max(run.columns.last, (run.summary.steps or 0) if run.summary else 0)
    num_steps = run.settings.get("steps")
    return f"{done:,} of {num_steps:,}" if isinstance(num_steps, int) and num_steps != done else f"{done:,}"


def skipped_cell(runs: Runs) -> str:
    """Return the share of groups whose rewards are all equal, over all steps."""
    shares = [run.series["group/informative"].values for run in runs if "group/informative" in run.series]
    return f"{100 * (1 - float(np.mean(np.concatenate(shares)))):.1f}" if shares else MISSING


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
    "nothing. Any other algorithm learns from them."
)
DROPPED = (
    "Dropped groups: tasks that were played and of which nothing is learned, since the tasks before them had enough "
    "turns together. Their episodes are not among those played."
)
DROPPED_TURNS = (
    "Turns dropped: turns in which credit kept no token. Turns of failed episodes are not among those played."
)


def rules_of(runs: Sequence[RunRecord]) -> Iterable[str]:
    """Yield the rules by which episodes, groups and turns do not count."""
    shares = sorted({str(run.settings["max_error_share"]) for run in runs if "max_error_share" in run.settings})
    yield f"{FAILED}{f' ({listed(shares)})' if shares else ''}."
    yield from (CUT, SKIPPED, DROPPED, DROPPED_TURNS)
    for key, text in RULES.items():
        named = [run.name for run in runs if run.settings.get(key)]
        if named:
            yield f"{text} ({key}): {listed(named)}."
    for name, text in DROPS.items():
        named = [run.name for run in runs if str(run.settings.get(ALGORITHM, "")).rpartition(".")[2] == name]
        if named:
            yield f"{text} (algo {name}): {listed(named)}."


RULES = {
    "algo.drop_equal": "Groups whose episodes earned the same are left out of the loss",
    "algo.num_turns": "A step keeps the first tasks that have so many turns together and drops the others",
    "hardware.staleness": "Rollouts may lag behind the policy that they train",
}
"""Rules of settings that drop episodes."""
ALGORITHM = "algo._target_"
NOT_BRANCHED = "Segments after which no episode branched are left out, and so are groups whose episodes earned the same"
DROPS = {
    "branpo": "Episodes that are no base and no branch of a pair are left out",
    "carl": f"{NOT_BRANCHED}, unless algo.update is all",
    "cpo": "In a group that failed, episodes without a twin are left out, and so is what follows a twin's branching",
    "ipo": "All but the first success and the first failure of a task are left out, and so are tasks that lack either",
    "treerl": "Leaves beyond algo.num_leaves measure values and are left out",
    "vineppo": "Forks measure values and are left out",
}
"""Rules by which the credit of an algorithm drops turns."""
MOST_NAMED = 6


def listed(names: Sequence[str]) -> str:
    more = f" and {len(names) - MOST_NAMED} more" if len(names) > MOST_NAMED else ""
    return ", ".join(names[:MOST_NAMED]) + more


def seeds_table(cohorts: Sequence[Cohort]) -> Table:
    """Return the spread over seeds of the figures of each cohort with several runs."""
    rows = [
        row for cohort in cohorts if len(cohort.judged) > 1 for stat in SPREAD_OF for row in spread_rows(cohort, stat)
    ]
    header = ("runs", "figure", "seeds", "mean", "standard deviation", "least", "most", "of each seed")
    return Table(title="Spread over seeds", header=header, rows=tuple(rows))


def spread_rows(cohort: Cohort, stat: str) -> list[tuple[str, ...]]:
    """Return a row of the values of the seeds, where all have the figure."""
    summaries = [run.summary for run in cohort.judged if run.summary is not None]
    values = [summary.metrics[f"eval/{stat}"].value for summary in summaries if f"eval/{stat}" in summary.metrics]
    if len(values) < len(summaries):
        return []
    column = axis_of(stat)
    cells = [number_cell(x, column) for x in (fmean(values), stdev(values), min(values), max(values))]
    each = ", ".join(f"{summary.seed}: {number_cell(x, column)}" for summary, x in zip(summaries, values, strict=True))
    return [(cohort.name, column.title, str(len(values)), *cells, each)]


def budget_table(groups: Mapping[str, Runs]) -> Table:
    """Return how the runs of each group ended, their seeds and what they cost, and the sum."""
    rows = [budget_row(name, runs) for name, runs in groups.items()]
    all_runs = [run for runs in groups.values() for run in runs]
    if len(groups) > 1:
        rows.append(("all", "", "", "", *cost_cells(all_runs)))
    header = ("runs", "status", "seeds", "devices", "time", "device-hours", "tokens sampled", "tool calls")
    return Table(title=f"Budget: training and evaluation{summed(groups)}", header=header, rows=tuple(rows))


def budget_row(name: str, runs: Runs) -> tuple[str, ...]:
    states = Counter(run.state for run in runs)
    status = ", ".join(f"{num} {state}" if len(states) > 1 else state for state, num in states.items())
    seeds = [str(run.summary.seed if run.summary is not None else run.settings.get("seed", MISSING)) for run in runs]
    devices = dict.fromkeys(map(devices_cell, runs))
    return (name, status, listed(seeds), ", ".join(devices), *cost_cells(runs))


def cost_cells(runs: Runs) -> tuple[str, ...]:
    """Return the sum of the costs that summaries tell."""
    costs = [run.summary.cost for run in runs if run.summary is not None]
    if not costs:
        return (MISSING,) * 4
    cost = sum(costs[1:], start=costs[0])
    return (duration(cost.seconds), f"{cost.device_hours:.2f}", f"{cost.tokens:,}", f"{cost.tool_calls:,}")


def devices_cell(run: RunRecord) -> str:
    """Return the kind of device, with the number of processes where there are several."""
    device, num = (run.settings.get(f"hardware.{key}") for key in ("device", "num_processes"))
    if not isinstance(device, str):
        return MISSING
    return f"{num} x {device}" if isinstance(num, int) and num > 1 else device


def versions_of(runs: Sequence[RunRecord]) -> Iterable[str]:
    """Yield each commit and each set of versions with the number of its runs."""
    summaries = [run.summary for run in runs if run.summary is not None]
    commits = Counter(
        commit_text(summary.git.commit, summary.git.dirty) if summary.git else "no commit" for summary in summaries
    )
    for commit, num in commits.items():
        yield f"{commit}: {format_count(num, 'run')}"
    versions = Counter(main_versions(summary.provenance) for summary in summaries)
    for text, num in versions.items():
        yield f"Versions: {text} ({format_count(num, 'run')})"
    differing = conflicts([summary.provenance for summary in summaries])
    if differing:
        yield f"The runs differ beside their configurations: {'; '.join(one_line(text, 200) for text in differing)}"
    open_runs = [run.name for run in runs if run.summary is None]
    if open_runs:
        yield f"Without a summary, so without commit and versions: {listed(open_runs)}"


def commit_text(commit: str, dirty: bool) -> str:
    return f"Commit {one_line(commit, 40)}{' with changes that are not committed' if dirty else ''}"


def remarks_of(runs: Sequence[RunRecord]) -> Iterable[str]:
    """Yield the notes and the warnings of each run."""
    for run in runs:
        if run.summary is not None:
            remarks = (*run.summary.notes, *run.summary.warnings)
            yield from (f"{run.name}: {by_name(text, run.name)}" for text in remarks)


def by_name(text: str, name: str) -> str:
    """Return text in which a run has its name in the report and not the path that it was written to."""
    words = text.split(" ")
    return " ".join(name if word.startswith("/") and word.endswith(f"/{name}") else word for word in words)


def commands_of(runs: Sequence[RunRecord]) -> Iterable[str]:
    """Yield the command of each run below its name: a comment, quoted because zsh reads comments as commands."""
    for run in runs:
        if command := command_of(run):
            yield from (f"# {quote(run.name)}", command)


def command_of(run: RunRecord) -> str:
    """Return the command line that a run was started with; empty where it cannot be read."""
    return command_line(read_json(run.folder / COMMAND))
