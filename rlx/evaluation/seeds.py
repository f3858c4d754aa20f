"""Gains over seeds: what one algorithm gains over another if both are trained with other seeds, on these problems.

Each run has one figure, so the runs of either side are a sample of seeds. With n and m runs of means x and y and
deviations s and r, the gain x - y is bounded by Welch's interval (1947, Biometrika 34: 28-35):

    x - y +- t sqrt(u + v),  u = s^2 / n,  v = r^2 / m,  freedom = (u + v)^2 / (u^2 / (n - 1) + v^2 / (m - 1))

Here t is Student's .975 quantile with the freedom rounded down. Two evaluations of the same runs are paired: x are then
the runs' own differences, and y = v = 0, which leaves Student's interval of n - 1 degrees of freedom. Runs that all say
the same tell nothing of the spread of others, and neither does a single run, so they have no ends.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import inf, sqrt

import numpy as np

from rlx.evaluation.figures import strata
from rlx.evaluation.intervals import Floats, Ratio, student, within
from rlx.runs.summary import Estimate

HUGE = 1e150
"""Variance whose square is no number."""


def gains_over_seeds(
    ours: Mapping[str, Ratio], theirs: Mapping[str, Ratio], *, paired: bool, noun: str = "gain"
) -> dict[str, Estimate]:
    """Return ours less theirs for every figure that both have, `noun/stat`; nothing if a side has a single run. Both
    sides are evaluations of the same runs, in the same order, if `paired`."""
    shared = {name: (ours[name], theirs[name]) for name in ours if name in theirs}
    if any(len(side.top) < 2 for pair in shared.values() for side in pair):
        return {}
    gains = {name: seed_gain([pair], paired) for name, pair in shared.items()}
    gains |= {name: seed_gain([shared[part] for part in parts], paired) for name, parts in strata(shared).items()}
    return {f"{noun}/{name}": gain for name, gain in gains.items()}


def means_over_seeds(figures: Mapping[str, Ratio], noun: str) -> dict[str, Estimate]:
    """Return the mean of every figure with an interval over seeds, `noun/stat`; nothing of a single run."""
    if any(len(figure.top) < 2 for figure in figures.values()):
        return {}
    means = {name: seed_mean([figure]) for name, figure in figures.items()}
    means |= {name: seed_mean([figures[part] for part in parts]) for name, parts in strata(figures).items()}
    return {f"{noun}/{name}": mean for name, mean in means.items()}


def seed_mean(parts: Sequence[Ratio]) -> Estimate:
    """Return the mean over parts and runs, with Student's interval cut to the possible values."""
    each = mean_of_parts(parts)
    interval = welch(each, np.zeros_like(each))
    return within(interval, float(np.mean([*map(least_of, parts)])), float(np.mean([*map(most_of, parts)])))


def seed_gain(parts: Sequence[tuple[Ratio, Ratio]], paired: bool) -> Estimate:
    """Return the gain of the mean over parts, each of ours and theirs, cut to the possible differences."""
    ours, theirs = (mean_of_parts([pair[side] for pair in parts]) for side in (0, 1))
    least = np.mean([least_of(mine) - most_of(other) for mine, other in parts])
    most = np.mean([most_of(mine) - least_of(other) for mine, other in parts])
    gain = welch(ours - theirs, np.zeros_like(ours)) if paired else welch(ours, theirs)
    return within(gain, float(least), float(most))


def mean_of_parts(parts: Sequence[Ratio]) -> Floats:
    """Return each run's mean over the parts."""
    return np.mean([part.each for part in parts], axis=0)


def least_of(ratio: Ratio) -> float:
    """Return the smallest possible value."""
    return 0.0 if ratio.is_share else ratio.least


def most_of(ratio: Ratio) -> float:
    """Return the largest possible value."""
    return 1.0 if ratio.is_share else ratio.most


def welch(ours: Floats, theirs: Floats) -> Estimate:
    """Return Welch's interval of the difference of two means."""
    gap = float(ours.mean() - theirs.mean())
    with np.errstate(over="ignore"):
        mine, other = (float(side.var(ddof=1)) / len(side) for side in (ours, theirs))
    if sqrt(mine + other) <= 1e-12 * max(1.0, abs(gap)) or max(mine, other) > HUGE:
        return Estimate(value=gap, low=-inf, high=inf)
    freedom = (mine + other) ** 2 / (mine**2 / (len(ours) - 1) + other**2 / (len(theirs) - 1))
    reach = student(int(freedom + 1e-9)) * sqrt(mine + other)
    return Estimate(value=gap, low=gap - reach, high=gap + reach)
