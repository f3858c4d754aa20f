"""Figures of an evaluation, computed from its trajectories: of each problem, and of all.

With `eval` as the noun they are `eval/pass@1`, `eval/pass@4` ... (unbiased), `eval/reward` and `eval/reward_std`, the
standard deviation of all samples' rewards. The others have the names that training has for them:

    tool/calls  tool/tokens  tool/failed_rate (failed calls of all calls)
    tool/mismatch_rate (episodes that answered against their last observation)
    episode/turns  episode/tokens  episode/truncated  episode/errors
    env/NAME (a metric of the environment, over the episodes that report it)
    reply/NAME (a metric of the protocol, over the turns that report it)

All but `env/NAME`, `reply/NAME` and `tool/failed_rate` are means over problems of the mean over a problem's samples. A
mixture has them for each part (`eval/PART/pass@1`), and `eval/overall/pass@k` and `eval/overall/reward`, the means of
its parts. An episode that ended in an error counts as a failed attempt, or a crash would flatter the policy.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import inf, sqrt

import numpy as np

from rlx.evaluation.intervals import Flags, Floats, Ratio, mean_of, share_of
from rlx.evaluation.passk import compare, differences, estimates, pass_at_k, require_same_tasks
from rlx.rollout.measure import EMPTY, FLAGS, describe, env_figures, reply_figures
from rlx.runs.summary import Estimate
from rlx.types import Group, Metrics

Bounds = Mapping[str, tuple[float, float]]
"""Least and largest possible value of statistics, by their names."""


def attainable(reward_range: tuple[float, float], max_rounds: int | None) -> Bounds:
    """Return the possible values of an episode's statistics under a limit of turns: a turn makes one call at most."""
    calls = {} if max_rounds is None else {"tool/calls": (0.0, float(max_rounds))}
    return {"reward": reward_range, **calls}


@dataclass(frozen=True, slots=True, kw_only=True)
class Score:
    """One problem's row of the per-task table: sums over its samples."""

    task: str
    env: str = ""
    """The part of a mixture that it is of."""
    num_samples: int
    num_correct: int
    sums: Mapping[str, float] = field(default_factory=dict)
    """Statistics of each episode (rlx.rollout.measure), failed calls included."""
    bounds: Bounds = field(default_factory=dict)
    """Possible values of an episode's statistics, where they are known."""
    spread: float = 0.0
    """Sum of the squared deviations of the samples' rewards from their mean."""
    reports: Mapping[str, tuple[float, ...]] = field(default_factory=dict)
    """Metrics of the environment for each sample that reports them, and of the protocol for each turn that does."""


FAILED = "tool/failed"
SPREAD = "reward_std"
REPORTED = ("env/", "reply/")
"""Nouns of figures that environments and protocols report themselves."""
NOTHING_BOUNDED: Bounds = {}


def score(group: Group, bounds: Bounds = NOTHING_BOUNDED) -> Score:
    """Return the row of one group."""
    episodes = group.trajectories
    if not episodes:
        raise ValueError(f"task {group.task.id!r} has no samples to score")
    rows, env_reports = [describe(episode) for episode in episodes], [env_figures(episode) for episode in episodes]
    spoken = [reply_figures(episode) for episode in episodes]
    names, measures = ({name for row in rows for name in row} for rows in (env_reports, spoken))
    return Score(
        task=group.task.key,
        env=group.task.env,
        num_samples=len(episodes),
        num_correct=sum(episode.success and episode.status != "error" for episode in episodes),
        sums={
            **{name: sum(row[name] for row in rows) for name in EMPTY},
            FAILED: sum(episode.tool.num_failed for episode in episodes),
        },
        bounds=bounds,
        spread=squares([row["reward"] for row in rows]),
        reports={
            **{name: tuple(row[name] for row in env_reports if name in row) for name in sorted(names)},
            **{name: tuple(value for row in spoken for value in row.get(name, ())) for name in sorted(measures)},
        },
    )


def squares(values: Sequence[float]) -> float:
    """Return sum (v - mean)^2."""
    mean = sum(values) / len(values)
    return sum((value - mean) * (value - mean) for value in values)  # a power overflows where a product is infinite


def deviation(scores: Sequence[Score], chosen: Flags) -> dict[str, Ratio]:
    """Return `reward_std` of some problems: the population's standard deviation of their samples' rewards.

    With d_p the mean over problem p's samples of (reward - mean)^2 and s^2 the mean of d_p, problem p says
    s + (d_p - s^2) / 2s. The mean of these is s, and their spread is that of s by its influence function.
    """
    nums, weights = np.array([row.num_samples for row in scores], dtype=np.float64), chosen.astype(np.float64)
    means = np.array([row.sums.get("reward", 0.0) for row in scores], dtype=np.float64) / nums
    spreads = np.array([row.spread for row in scores], dtype=np.float64) / nums
    with np.errstate(all="ignore"):
        mean = np.average(means, weights=weights)
        each = spreads + (means - mean) ** 2
        variance = np.average(each, weights=weights)
    if not np.isfinite(variance):  # rewards of more than 1e154
        return {}
    std = np.sqrt(variance)
    influences = std + (each - variance) / (2 * std) if std > 0 else np.zeros_like(each)
    return {SPREAD: Ratio(top=(influences * weights)[None], bottom=weights[None], least=0.0)}


def pass_ratios(scores: Sequence[Score], ks: Iterable[int]) -> dict[str, Ratio]:
    """`pass@k` for each k that every problem has samples enough for."""
    fewest = min((row.num_samples for row in scores), default=0)
    return {
        f"pass@{k}": share_of([pass_at_k(row.num_samples, row.num_correct, k) for row in scores])
        for k in ks
        if k <= fewest
    }


def ratios(scores: Sequence[Score], ks: Iterable[int]) -> dict[str, Ratio]:
    """Every figure as a ratio of sums over problems, by the part of its name after the slash: of all problems, and of
    each part's of a mixture, its name before theirs. What nothing was said of is not there."""
    overall_ratios = pass_ratios(scores, ks) | stat_ratios(scores)
    all_ratios = overall_ratios | (deviation(scores, np.ones(len(scores), dtype=bool)) if scores else {})
    for part in sorted({row.env for row in scores} - {""}):
        chosen = np.array([row.env == part for row in scores])
        part_ratios = {name: ratio.of(chosen) for name, ratio in overall_ratios.items()} | deviation(scores, chosen)
        all_ratios |= {
            f"{part}/{name}": ratio
            for name, ratio in part_ratios.items()
            if not name.startswith(REPORTED) or ratio.bottom.any()
        }
    return all_ratios


def stat_ratios(scores: Sequence[Score]) -> dict[str, Ratio]:
    """All but pass@k."""

    def sums_of(column: str) -> Floats:
        return np.array([row.sums.get(column, 0.0) for row in scores], dtype=np.float64)

    num_P = np.array([row.num_samples for row in scores], dtype=np.float64)
    named_ratios = {name: (share_of if name in FLAGS else mean_of)(sums_of(name) / num_P) for name in EMPTY}
    named_ratios |= {name: replace(ratio, least=0.0) for name, ratio in named_ratios.items() if name != "reward"}
    named_ratios |= {
        name: bound_ratio(ratio, scores, name) for name, ratio in named_ratios.items() if not ratio.is_share
    }
    named_ratios["tool/failed_rate"] = Ratio(
        top=sums_of(FAILED)[None], bottom=sums_of("tool/calls")[None], is_share=True
    )
    for name in sorted({name for row in scores for name in row.reports}):
        reported = [row.reports.get(name, ()) for row in scores]
        sums, nums = (np.array([list(map(each, reported))], dtype=np.float64) for each in (sum, len))
        is_flag = {value for episodes in reported for value in episodes} <= {0.0, 1.0}
        named_ratios[name] = Ratio(top=sums, bottom=nums, is_share=is_flag)
    return named_ratios


def bound_ratio(ratio: Ratio, scores: Sequence[Score], name: str) -> Ratio:
    """Return the ratio with the widest bounds of any problem; a value that was seen is possible, whatever was said."""
    bounds = [row.bounds.get(name, (-inf, inf)) for row in scores]
    if not bounds:
        return ratio
    least, most = min(low for low, _ in bounds), max(high for _, high in bounds)
    return replace(ratio, least=max(ratio.least, min(least, ratio.values.min())), most=max(most, ratio.values.max()))


def mean_ratios(tables: Sequence[Sequence[Score]], ks: Sequence[int]) -> dict[str, Ratio]:
    """The figures of several runs, a table of scores each, as their mean. Not those of all samples in one heap: several
    policies differ more than one does from itself, so k tries drawn from all of them pass more often."""
    for table in tables[1:]:
        require_same_tasks([row.task for row in tables[0]], [row.task for row in table])
    each = [ratios(in_order(table, tables[0]), ks) for table in tables]
    return {
        name: Ratio(
            top=np.concatenate([run_ratios[name].top for run_ratios in each]),
            bottom=np.concatenate([run_ratios[name].bottom for run_ratios in each]),
            is_share=all(run_ratios[name].is_share for run_ratios in each),
            least=min(run_ratios[name].least for run_ratios in each),
            most=max(run_ratios[name].most for run_ratios in each),
        )
        for name in each[0]
        if all(name in run_ratios for run_ratios in each)
    }


def in_order(scores: Sequence[Score], like: Sequence[Score]) -> list[Score]:
    """The same scores, in the order of another table of these tasks."""
    by_task = {row.task: row for row in scores}
    return [by_task[row.task] for row in like]


def figures(
    scores: Sequence[Score], *, ks: Iterable[int], noun: str = "eval", num_resamples: int = 10_000, seed: int = 0
) -> dict[str, Estimate]:
    """`noun/stat` to its estimate, for every figure."""
    return name_figures(noun, estimates(ratios(scores, ks), num_resamples, seed))


def gains(
    ours: Sequence[Score],
    theirs: Sequence[Score],
    *,
    ks: Iterable[int],
    noun: str = "gain",
    num_resamples: int = 10_000,
    seed: int = 0,
) -> dict[str, Estimate]:
    """Ours less theirs for every figure, paired by task; both must have the same tasks."""
    return mean_gains([ours], [theirs], ks=ks, noun=noun, num_resamples=num_resamples, seed=seed)


def mean_gains(
    ours: Sequence[Sequence[Score]],
    theirs: Sequence[Sequence[Score]],
    *,
    ks: Iterable[int],
    noun: str = "gain",
    num_resamples: int = 10_000,
    seed: int = 0,
) -> dict[str, Estimate]:
    """The mean over our runs less that over theirs, paired by task."""
    ks = list(ks)
    require_same_tasks([row.task for row in ours[0]], [row.task for row in theirs[0]])
    paired = [in_order(theirs[0], ours[0]), *theirs[1:]]
    return name_figures(noun, compare(mean_ratios(ours, ks), mean_ratios(paired, ks), num_resamples, seed))


def gains_of_each(
    ours: Sequence[Sequence[Score]], theirs: Sequence[Sequence[Score]], *, ks: Sequence[int], noun: str = "gain"
) -> list[dict[str, Estimate]]:
    """`mean_gains`, then those of each of our runs alone; what all are compared with is drawn once."""
    require_same_tasks([row.task for row in ours[0]], [row.task for row in theirs[0]])
    other = mean_ratios([in_order(theirs[0], ours[0]), *theirs[1:]], ks)
    drawn = estimates(other)
    mean = mean_ratios(ours, ks)
    each = [mean, *(mean_ratios([in_order(table, ours[0])], ks) for table in ours)]
    return [name_figures(noun, differences(run_ratios, other, estimates(run_ratios), drawn)) for run_ratios in each]


def values(estimated: Mapping[str, Estimate]) -> Metrics:
    """Only the values, for a line of metrics.jsonl."""
    return {name: figure.value for name, figure in estimated.items()}


def name_figures(noun: str, estimated: Mapping[str, Estimate]) -> dict[str, Estimate]:
    """Return figures by the names `noun/stat`, those over the parts of a mixture included."""
    return {f"{noun}/{stat}": figure for stat, figure in {**estimated, **over_parts(estimated)}.items()}


def over_parts(estimated: Mapping[str, Estimate]) -> dict[str, Estimate]:
    """Return `overall/pass@k` and `overall/reward`: the mean of a mixture's parts, each with the same weight.

    `pass@k` weights tasks, so it is another figure where the test has more tasks of one part than of another.
    """
    return {name: mean_of_strata([estimated[part] for part in parts]) for name, parts in strata(estimated).items()}


def strata(names: Iterable[str]) -> dict[str, list[str]]:
    """Return the parts' figures that `overall/pass@k` and `overall/reward` are the means of, of two parts or more."""
    part_names: dict[str, list[str]] = {}
    for name in names:
        part, _, stat = name.partition("/")
        if re.fullmatch(r"pass@\d+|reward", stat) and part != "overall":
            part_names.setdefault(f"overall/{stat}", []).append(name)
    return {name: parts for name, parts in part_names.items() if len(parts) > 1}


def mean_of_strata(each: Sequence[Estimate]) -> Estimate:
    """Return the mean of independent figures, such as those of a mixture's parts, with its interval.

    The tasks are stratified by part: the number of each part's is fixed, and no part's draw says anything of
    another's. So the distances to the ends add up as independent deviations do (Zou and Donner 2008): with K strata,
    low = mean - sqrt(sum (value_k - low_k)^2) / K, and high likewise. It lies within the means of the ends.
    """
    num = len(each)
    value = sum(part.value for part in each) / num
    down = sqrt(sum((part.value - part.low) ** 2 for part in each)) / num
    up = sqrt(sum((part.high - part.value) ** 2 for part in each)) / num
    return Estimate(value=value, low=value - down, high=value + up)
