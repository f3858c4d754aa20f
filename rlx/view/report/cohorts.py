"""Cohorts: groups of runs that differ only in their seeds, with the figures of each group."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, partial
from statistics import fmean

from rlx.evaluation.compare import read_ks, scores_of
from rlx.evaluation.figures import Score, mean_gains, mean_ratios, name_figures
from rlx.evaluation.passk import estimates
from rlx.evaluation.sweep import config_cell, differing_keys, is_alike, short_keys
from rlx.runs.files import budgets_of
from rlx.runs.run import DAMAGE, Damage, reason_of
from rlx.runs.summary import Estimate
from rlx.view.report.runs import RunRecord

Figures = Mapping[str, Estimate]
STORED = ("eval", "start", "untrained")
"""First words of figures whose episodes are stored."""
GAINS = {"gain": "start", "gain_untrained": "untrained"}
"""First words of gains, and what the policy is compared with."""
Scores = Sequence[Sequence[Score]]
LONGEST = 48
"""Largest number of characters of a name made of settings."""


@dataclass(frozen=True, kw_only=True)
class Cohort:
    """Runs that differ in their seeds alone."""

    name: str
    runs: tuple[RunRecord, ...]
    figures: Mapping[str, Figures] = field(default_factory=dict)
    """Figures `eval/stat` of each policy: `eval`, `start`, `untrained`, `random`, or `eval@5` for another limit of
    turns; the mean over the runs that have them."""
    damage: tuple[Damage, ...] = ()

    @property
    def judged(self) -> tuple[RunRecord, ...]:
        """Return the runs that have figures."""
        return tuple(run for run in self.runs if run.has_figures)


def cohorts_of(records: Sequence[RunRecord]) -> list[Cohort]:
    """Put runs that differ in their seeds alone together, and measure them."""
    keys = unlike_keys(records)
    groups: dict[object, list[RunRecord]] = {}
    for number, record in enumerate(records):
        choice = tuple(config_cell(record.settings.get(key)) for key in keys)
        groups.setdefault(choice if record.settings else number, []).append(record)
    names = cohort_names([*groups.values()], keys)
    return [measured(Cohort(name=name, runs=tuple(runs))) for name, runs in zip(names, groups.values(), strict=True)]


def unlike_keys(records: Sequence[RunRecord]) -> list[str]:
    """Return the settings in which the runs differ, seeds and settings without effect left out."""
    return [
        key for key in differing_keys([record.settings for record in records if record.settings]) if not is_alike(key)
    ]


def cohort_names(groups: Sequence[Sequence[RunRecord]], keys: Sequence[str]) -> list[str]:
    """Name each group after the folder that holds its runs and no others, or else after its settings where these are
    few, or after its first run."""
    above = [{record.name.rpartition("/")[0] for record in group} for group in groups]
    alone = [
        len(folders) == 1 and sum(folders == other for other in above) == 1 and folders != {""} for folders in above
    ]
    numbered = [all(record.name.rpartition("/")[2].isdecimal() for record in group) for group in groups]
    names = [
        next(iter(folders)) if is_alone and (len(group) > 1 or is_number) else name_by_settings(group, keys)
        for group, folders, is_alone, is_number in zip(groups, above, alone, numbered, strict=True)
    ]
    ends = [name.rpartition("/")[2] for name in names]
    return ends if len(set(ends)) == len(ends) and not any(map(str.isdecimal, ends)) else names


def name_by_settings(group: Sequence[RunRecord], keys: Sequence[str]) -> str:
    """Return the settings of a group whose runs are numbers, as in a sweep; otherwise the name of its first run."""
    first = group[0]
    text = ", ".join(
        f"{short}={config_cell(first.settings.get(key))}" for key, short in zip(keys, short_keys(keys), strict=True)
    )
    if text and first.settings and len(text) <= LONGEST and first.name.rpartition("/")[2].isdecimal():
        return text
    return first.name if len(group) == 1 else f"{first.name} and {len(group) - 1} more"


def measured(cohort: Cohort) -> Cohort:
    """Return the cohort with its figures."""
    each = [by_policy(run.summary.metrics) for run in cohort.judged if run.summary is not None]
    if len(each) < 2:
        return replace(cohort, figures=each[0] if each else {})
    figures: dict[str, Figures] = {}
    failed: dict[str, list[str]] = {}
    read = cache(partial(stored_scores, cohort.judged))  # a gain needs what its sides have read
    for noun in (noun for noun in each[0] if all(noun in run_figures for run_figures in each)):
        try:
            figures[noun] = mean_figures(read, read_ks(cohort.judged[0]), noun, each[0][noun])
        except DAMAGE as error:
            figures[noun] = unbounded_means([run_figures[noun] for run_figures in each])
            failed.setdefault(reason_of(error, cohort.runs[0].folder, cohort.runs[0].name), []).append(noun)
    damage = [
        Damage(place=cohort.name, reason=f"no interval of {', '.join(nouns)} over seeds: {reason}")
        for reason, nouns in failed.items()
    ]
    return replace(cohort, figures=figures, damage=tuple(damage))


def by_policy(metrics: Figures) -> dict[str, Figures]:
    """Return a summary's figures by the policy that they are of, `eval/stat` each."""
    figures: dict[str, dict[str, Estimate]] = {}
    for name, figure in metrics.items():
        noun, _, stat = name.partition("/")
        figures.setdefault(noun, {})[f"eval/{stat}"] = figure
    return {noun: figures[noun] for noun in sorted(figures, key=order_of)}


def order_of(noun: str) -> tuple[int, str]:
    """Return a key that puts a policy's figures before those of what it is compared with."""
    first, _, limit = noun.partition("@")
    order = ("random", "untrained", "start", "eval", "gain")
    return (order.index(first) if first in order else len(order), limit)


def mean_figures(read: Callable[[str, str], Scores], ks: Sequence[int], noun: str, first: Figures) -> Figures:
    """Return the means over runs, with intervals over problems; random play is the first run's, as it has no policy.
    `read` returns the scores of an evaluation under a limit of turns."""
    word, _, limit = noun.partition("@")
    if word in STORED:
        return name_figures("eval", estimates(mean_ratios(read(word, limit), ks)))
    if word in GAINS:
        return mean_gains(read("eval", limit), read(GAINS[word], limit), ks=ks, noun="eval")
    return first


def stored_scores(runs: Sequence[RunRecord], word: str, limit: str) -> Scores:
    """Return the scores of a stored evaluation of each run."""
    rounds = limit or main_limit(runs[0], budgets_of(runs[0].folder, word))
    return [scores_of(run, f"{word}-{rounds}") for run in runs]


def main_limit(run: RunRecord, budgets: Sequence[str]) -> str:
    """Return the limit of turns that figures without one in their name are of."""
    limits = run.settings.get("evaluate.max_rounds")
    first = str(limits[0]) if isinstance(limits, list) and limits else ""
    if not budgets:
        raise ValueError(f"{run.name} holds no stored evaluation")
    return first if first in budgets else budgets[0]


def unbounded_means(each: Sequence[Figures]) -> Figures:
    """Return means of figures whose episodes cannot be read: nothing bounds them."""
    names = [name for name in each[0] if all(name in figures for figures in each)]
    means = {name: fmean([figures[name].value for figures in each]) for name in names}
    return {name: Estimate(value=mean, low=-math.inf, high=math.inf) for name, mean in means.items()}
