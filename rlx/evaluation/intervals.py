"""95% intervals of figures over problems. They cover the choice of problems and the chance in their episodes.

A **share** lies between 0 and 1 on every problem (pass@k, a rate of failures). Near either end the observed problems
say little about others: fifty solved problems do not make the next one certain. Its interval is Rubin's Bayesian
bootstrap (1981, Annals of Statistics 9). Each problem has an exponential weight, and two imagined problems are added.
For the lower end these are half a problem at 0 and half a problem at the largest observed share. For the upper end they
are half a problem at 1 and half a problem at the smallest observed share. For c of n outcomes of 0 and 1 the ends are
quantiles of Beta(c + .5, n - c + .5), Jeffreys' interval. If all n problems say 1, the lower end is .025^(1/n), that of
Clopper and Pearson; likewise if all say 0. Brown, Cai and DasGupta recommend this (2001, Statistical Science 16:
101-133).

Any **other mean** (reward, calls, tokens) has Student's interval corrected for skewness (Willink 2005, Communications
in Statistics 34: 753-766), cut to the possible values. No count is below 0, calls do not exceed the limit of turns, and
a reward stays within the environment's `reward_range`, if any.

A **mean over selected episodes** is a ratio of sums. It uses the problems with a selected episode and the spread of
their jackknife pseudo-values. Its degrees of freedom are one less than the effective number of problems, B^2 /
sum b^2. Here b is a problem's number of selected episodes and B their sum (Carter, Schnepel, Steigerwald 2017, Review
of Economics and Statistics 99: 698-709). The interval has no ends without a degree of freedom, or if fewer than `ALIKE`
problems all say the same.

The **difference of two shares** on the same problems combines their two intervals and the correlation of the problems'
values (Newcombe 1998, Statistics in Medicine 17: 2635-2650; Zou and Donner 2008). `benchmarks/bench_intervals.py`
measures the coverage of all of them. Numpy only.

Shapes: S runs whose figures are averaged, P problems, R resamples.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from math import inf, isfinite, sqrt

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rlx.base.limits import MistakeError
from rlx.runs.summary import Estimate

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]

LEVELS = (0.025, 0.975)
"""Quantiles that bound a 95% interval."""
IMAGINED = 0.5
"""Weight of each imagined problem: one at the extreme (0 or 1), one at the observed share nearest the other extreme."""
METHOD = (
    "95%, over problems: Bayesian bootstrap of shares, Student's t corrected for skewness of other means "
    "(rlx/evaluation/intervals.py, docs/intervals.md)"
)
ALIKE = 6
"""Smallest number of identical problems that is no chance: five tossed coins fall alike once in sixteen."""
BLOCK = 1 << 20
"""Weights drawn at once, to bound memory."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ratio:
    """A sum over problems divided by another sum: a mean if `bottom` is all ones, else a rate.

    The value is 0 if `bottom` sums to 0: of no calls none failed. Several runs have the mean of their ratios. A problem
    with `bottom` 0 has no influence.
    """

    top: Floats
    """Numerators, (S, P); `bottom` holds the denominators."""
    bottom: Floats
    is_share: bool = False
    """Flag: the ratio lies between 0 and 1 on every problem."""
    least: float = -inf
    """Smallest possible value: 0 for a count."""
    most: float = inf
    """Largest possible value, such as a limit of calls."""

    @property
    def each(self) -> Floats:
        """Each run's own ratio, (S,)."""
        return _divide(self.top.sum(axis=1), self.bottom.sum(axis=1))

    @property
    def value(self) -> float:
        return float(self.each.mean())

    @property
    def values(self) -> Floats:
        """Each problem's value: for a mean its own, else the jackknife pseudo-value, P times the ratio less P - 1 times
        that of the other problems (Tukey 1958)."""
        bottom_sum = self.bottom.sum(axis=1, keepdims=True)
        ratio = _divide(self.top.sum(axis=1, keepdims=True), bottom_sum)
        others = _divide(np.full_like(self.top, self.top.shape[1] - 1), bottom_sum - self.bottom)
        return (ratio + others * (self.top - ratio * self.bottom)).mean(axis=0)

    @property
    def freedom(self) -> int:
        """Degrees of freedom: one less than the effective number of problems, in the run with the fewest."""
        bottom_sum, squares = self.bottom.sum(axis=1), (self.bottom**2).sum(axis=1)
        return int(_divide(bottom_sum**2, squares).min() + 1e-9) - 1

    @property
    def informative(self) -> Flags:
        """Flags of the problems with a denominator above 0 in any run."""
        return self.bottom.max(axis=0) > 0

    def of(self, chosen: Flags) -> Ratio:
        """Return the ratio with the other problems zeroed."""
        return replace(self, top=self.top * chosen, bottom=self.bottom * chosen)

    def at(self, chosen: Flags) -> Ratio:
        """Return the ratio without the other problems."""
        return replace(self, top=self.top[:, chosen], bottom=self.bottom[:, chosen])


def mean_of(values: ArrayLike) -> Ratio:
    """Return the plain mean over problems."""
    top = np.atleast_2d(np.asarray(values, dtype=np.float64))
    return Ratio(top=top, bottom=np.ones_like(top))


def share_of(values: ArrayLike) -> Ratio:
    """Return the mean over problems of values between 0 and 1."""
    plain = mean_of(values)
    return Ratio(top=plain.top, bottom=plain.bottom, is_share=True)


def intervals(ratios: Sequence[Ratio], num_resamples: int, seed: int) -> list[Estimate]:
    """Return each ratio with its interval; all shares use the same draws."""
    _require_finite(ratios, num_resamples)
    drawn = iter(share_intervals([ratio for ratio in ratios if ratio.is_share], num_resamples, seed))
    return [next(drawn) if ratio.is_share else mean_interval(ratio) for ratio in ratios]


def mean_interval(ratio: Ratio) -> Estimate:
    """Return Student's interval over the informative problems."""
    chosen = ratio.at(ratio.informative)
    estimate = student_interval(chosen.values, chosen.freedom, ratio.value)
    return within(estimate, ratio.least, ratio.most)


def within(estimate: Estimate, least: float, most: float) -> Estimate:
    """Cut an interval to the possible values. The true value is possible, so the coverage stays the same."""
    return (
        replace(estimate, low=max(estimate.low, least), high=min(estimate.high, most))
        if isfinite(estimate.low)
        else estimate
    )


def share_intervals(ratios: Sequence[Ratio], num_resamples: int, seed: int) -> list[Estimate]:
    """Return the Bayesian bootstrap's intervals, with imagined problems of average size."""
    if not ratios:
        return []
    parts = [run for ratio in ratios for run in zip(ratio.top, ratio.bottom, strict=True)]
    top_PF, bottom_PF = (np.stack(rows, axis=1) for rows in zip(*parts, strict=True))
    top_RF, bottom_RF = weighted_sums(top_PF, bottom_PF, num_resamples, seed)
    imagined = np.random.default_rng([seed, 1])
    near_R1, far_R1 = (imagined.standard_gamma(IMAGINED, (num_resamples, 1)) for _ in range(2))
    size_F = _divide(bottom_PF.sum(axis=0), (bottom_PF > 0).sum(axis=0).astype(np.float64))
    size_RF = bottom_RF + (near_R1 + far_R1) * size_F
    least_F, most_F = observed_range(top_PF, bottom_PF)
    low_RF = _divide(top_RF + far_R1 * size_F * most_F, size_RF)
    high_RF = _divide(top_RF + (near_R1 + far_R1 * least_F) * size_F, size_RF)
    estimates, first = [], 0
    for ratio in ratios:
        runs = slice(first, first := first + len(ratio.top))
        estimates.append(share_interval(ratio, low_RF[:, runs].mean(axis=1), high_RF[:, runs].mean(axis=1)))
    return estimates


def share_interval(ratio: Ratio, low_R: Floats, high_R: Floats) -> Estimate:
    """Return an interval from the draws of either end. If all problems are at the same extreme, Clopper's and Pearson's
    bound replaces the draws."""
    value, num = ratio.value, int((ratio.bottom > 0).any(axis=0).sum())
    if num == 0:
        return Estimate(value=0.0, low=0.0, high=0.0)
    alike = LEVELS[0] ** (1 / num)
    low = alike if value == 1 else float(np.quantile(low_R, LEVELS[0]))
    high = 1 - alike if value == 0 else float(np.quantile(high_R, LEVELS[1]))
    return _around(value, low, high)


def observed_range(top_PF: Floats, bottom_PF: Floats) -> tuple[Floats, Floats]:
    """Return the least and the largest share of any problem with a denominator."""
    share_PF = _divide(top_PF, bottom_PF)
    return np.where(bottom_PF > 0, share_PF, 1.0).min(axis=0), np.where(bottom_PF > 0, share_PF, 0.0).max(axis=0)


def student_interval(values_P: Floats, freedom: int, value: float) -> Estimate:
    """Return Student's interval with Willink's correction, of skewness g and a = g / (6 sqrt(n)).

    The ends are the mean less t' s / sqrt(n), t' = ((1 + 6a(t - a))^(1/3) - 1) / 2a. The interval has no width if at
    least ALIKE problems all say the same.
    """
    num = len(values_P)
    rest = values_P - values_P.mean() if num else values_P
    spread = sqrt(float((rest**2).sum()) / max(num - 1, 1))
    is_even = spread <= 1e-12 * max(1.0, abs(value))
    if freedom < 1 or (is_even and num < ALIKE):
        return Estimate(value=value, low=-inf, high=inf)
    if is_even:
        return Estimate(value=value, low=value, high=value)
    skew = num / max((num - 1) * (num - 2), 1) * float(((rest / spread) ** 3).sum())
    bend, reach = skew / (6 * sqrt(num)), student(freedom)
    low, high = (value - unbend(side, bend) * spread / sqrt(num) for side in (reach, -reach))
    return _around(value, low, high)


def unbend(t: float, bend: float) -> float:
    """Return Willink's t' of t."""
    return t if abs(bend) < 1e-6 else float(np.cbrt(1 + 6 * bend * (t - bend)) - 1) / (2 * bend)


def student(freedom: int) -> float:
    """Return Student's .975 quantile, from Fisher's expansion (Abramowitz and Stegun 26.7.5), within .1%."""
    if freedom < 3:
        return (12.7062, 4.3027)[freedom - 1]
    z = 1.959963984540054
    terms = (
        (z**3 + z) / 4,
        (5 * z**5 + 16 * z**3 + 3 * z) / 96,
        (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384,
        (79 * z**9 + 776 * z**7 + 1482 * z**5 - 1920 * z**3 - 945 * z) / 92160,
    )
    return z + sum(term / freedom**power for power, term in enumerate(terms, start=1))


def difference(ours: Ratio, theirs: Ratio, mine: Estimate, other: Estimate) -> Estimate:
    """Return the estimate of ours less theirs on the same problems. `mine` and `other` are the intervals of the two."""
    if not (ours.is_share and theirs.is_share):
        either = ours.informative | theirs.informative
        mine_chosen, other_chosen = ours.at(either), theirs.at(either)
        gap = ours.value - theirs.value
        estimate = student_interval(
            mine_chosen.values - other_chosen.values, min(mine_chosen.freedom, other_chosen.freedom), gap
        )
        return within(estimate, ours.least - theirs.most, ours.most - theirs.least)
    alike = correlation(ours.values, theirs.values)
    gap = mine.value - other.value
    down = reach(mine.value - mine.low, other.high - other.value, alike)
    up = reach(mine.high - mine.value, other.value - other.low, alike)
    return Estimate(value=gap, low=max(gap - down, -1.0), high=min(gap + up, 1.0))


def reach(our_error: float, their_error: float, alike: float) -> float:
    """Return the error of a difference of two figures: sqrt(a^2 + b^2 - 2 alike a b), with the errors a = `our_error`
    and b = `their_error` and the correlation `alike`."""
    return sqrt(max(0.0, our_error**2 + their_error**2 - 2 * alike * our_error * their_error))


def correlation(ours_P: Floats, theirs_P: Floats) -> float:
    """Return the correlation of two values over problems; 0 if either is constant."""
    our_rest, their_rest = ours_P - ours_P.mean(), theirs_P - theirs_P.mean()
    scale = sqrt(float((our_rest**2).sum() * (their_rest**2).sum()))
    return float((our_rest * their_rest).sum()) / scale if scale > 1e-12 else 0.0


def weighted_sums(top_PF: Floats, bottom_PF: Floats, num_resamples: int, seed: int) -> tuple[Floats, Floats]:
    """Return both sums under each resample's weights: (R, F)."""
    both = np.concatenate([top_PF, bottom_PF], axis=1)
    blocks = [_weigh(weights, both) for weights in _weights(len(both), num_resamples, seed)]
    top_RF, bottom_RF = np.split(np.concatenate(blocks), 2, axis=1)
    return top_RF, bottom_RF


def _weights(num_problems: int, num_resamples: int, seed: int) -> Iterator[Floats]:
    """Yield exponential weights of the problems, one block of resamples at a time. Divided by their sum, they are
    uniform."""
    generator = np.random.default_rng(seed)
    block = max(1, BLOCK // num_problems)
    for done in range(0, num_resamples, block):
        yield generator.standard_exponential((min(block, num_resamples - done), num_problems))


def _weigh(weights: Floats, values: Floats) -> Floats:
    """Return weights @ values, summed by einsum: the order of a BLAS depends on the number of threads."""
    return np.einsum("rp,pf->rf", weights, values)


def _around(value: float, low: float, high: float) -> Estimate:
    return Estimate(value=value, low=min(low, value), high=max(high, value))


def _divide(top: Floats, bottom: Floats) -> Floats:
    return np.divide(top, bottom, out=np.zeros_like(top), where=bottom != 0)


def _require_finite(ratios: Sequence[Ratio], num_resamples: int) -> None:
    num_problems = min((ratio.top.shape[1] for ratio in ratios), default=1)
    if num_problems == 0 or num_resamples < 1:
        raise ValueError(
            f"cannot bootstrap {num_problems} problems with {num_resamples} resamples: give at least 1 each"
        )
    if not all(np.isfinite(ratio.top).all() and np.isfinite(ratio.bottom).all() for ratio in ratios):
        raise MistakeError("cannot bootstrap a stored reward or figure that is no finite number: its file was changed")
