"""95% intervals of figures over problems: which problems were drawn is what varies, and how their episodes fell.

A **share** lies between 0 and 1 on every problem (pass@k, a rate of failures), and near either end the problems seen
say little of those not seen: fifty problems solved do not make the next one certain. Its interval is Rubin's Bayesian
bootstrap (1981, Annals of Statistics 9), each problem weighted by an exponential draw, with two imagined problems
beside them: the lower end's draws add half a problem at 0 and half a one at the most that was seen, the upper end's
half at 1 and half at the least seen. For c of n outcomes of 0 and 1 these are quantiles of Beta(c + .5, n - c + .5),
Jeffreys' interval; and as Brown, Cai and DasGupta (2001, Statistical Science 16: 101-133) have it for that, where all n
problems say 1 the lower end is .025^(1/n), which is Clopper's and Pearson's, and likewise where all say 0.

Any **other mean** (reward, calls, tokens) has Student's interval corrected for skewness (Willink 2005, Communications
in Statistics 34: 753-766), cut to the possible values: no count is below 0, no more calls are made than the limit of
turns allows, and a reward stays within the environment's `reward_range`, where it names one.
A mean over episodes that say a thing is a
ratio of sums: its problems are those of which some do, its spread is that of their jackknife pseudo-values, and it has
one degree of freedom less than the problems of equal weight that it amounts to, B^2 / sum b^2 for b such episodes of
each (Carter, Schnepel, Steigerwald 2017, Review of Economics and Statistics 99: 698-709). Where that leaves none, or
fewer than `ALIKE` problems all say the same, nothing is bounded: the interval has no ends.

The **difference of two shares** on the same problems is put together from their two intervals and the correlation of
the problems' values (Newcombe 1998, Statistics in Medicine 17: 2635-2650; Zou and Donner 2008).
`benchmarks/bench_intervals.py` measures how often all of them hold the truth. Numpy only.

Shapes: S runs whose figures are averaged, P problems, R resamples.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from math import inf, isfinite, sqrt

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]

LEVELS = (0.025, 0.975)
"""The quantiles that bound a 95% interval."""
IMAGINED = 0.5
"""Problems beside those seen: at the end that a draw moves towards, and at what was seen nearest to the other end."""
METHOD = (
    "95%, over problems: Bayesian bootstrap of shares, Student's t corrected for skewness of other means "
    "(rlx/evaluate/intervals.py, docs/intervals.md)"
)
ALIKE = 6
"""Problems that all say the same from which on this is no chance: five tossed coins fall alike once in sixteen."""
BLOCK = 1 << 20
"""Weights drawn at once, to bound memory."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """A figure and its 95% interval, whose ends are infinite where too few problems bound nothing."""

    value: float
    low: float
    high: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Ratio:
    """A figure that is a sum over problems divided by another: a mean where `bottom` is ones, else a rate.

    0 where `bottom` sums to 0: no calls, none of them failed. Of several runs, the mean of their ratios.
    A problem whose `bottom` is 0 says nothing of it.
    """

    top: Floats
    """(S, P)"""
    bottom: Floats
    is_share: bool = False
    """On every problem between 0 and 1."""
    least: float = -inf
    """The smallest possible value: 0 for a count."""
    most: float = inf
    """The largest possible value, such as a limit of calls."""

    @property
    def value(self) -> float:
        return float(_divide(self.top.sum(axis=1), self.bottom.sum(axis=1)).mean())

    @property
    def values(self) -> Floats:
        """What each problem says of the ratio: its own value where that is a mean, else the jackknife's, P times the
        ratio less P - 1 times that of the other problems (Tukey 1958)."""
        whole = self.bottom.sum(axis=1, keepdims=True)
        ratio = _divide(self.top.sum(axis=1, keepdims=True), whole)
        others = _divide(np.full_like(self.top, self.top.shape[1] - 1), whole - self.bottom)
        return (ratio + others * (self.top - ratio * self.bottom)).mean(axis=0)

    @property
    def freedom(self) -> int:
        """One less than the problems of equal weight that it amounts to, of the run that has the fewest."""
        whole, squares = self.bottom.sum(axis=1), (self.bottom**2).sum(axis=1)
        return int(_divide(whole**2, squares).min() + 1e-9) - 1

    @property
    def told(self) -> Flags:
        """Which problems say anything of it."""
        return self.bottom.max(axis=0) > 0

    def of(self, chosen: Flags) -> Ratio:
        """The same of some problems, of which the others say nothing."""
        return replace(self, top=self.top * chosen, bottom=self.bottom * chosen)

    def at(self, chosen: Flags) -> Ratio:
        """The same of some problems, without the others."""
        return replace(self, top=self.top[:, chosen], bottom=self.bottom[:, chosen])


def mean_of(values: ArrayLike) -> Ratio:
    """The plain mean over problems."""
    top = np.atleast_2d(np.asarray(values, dtype=np.float64))
    return Ratio(top=top, bottom=np.ones_like(top))


def share_of(values: ArrayLike) -> Ratio:
    """The mean over problems of what lies between 0 and 1 on each."""
    plain = mean_of(values)
    return Ratio(top=plain.top, bottom=plain.bottom, is_share=True)


def intervals(ratios: Sequence[Ratio], num_resamples: int, seed: int) -> list[Estimate]:
    """Each ratio with its interval; all shares by the same draws."""
    _require_finite(ratios, num_resamples)
    drawn = iter(share_intervals([ratio for ratio in ratios if ratio.is_share], num_resamples, seed))
    return [next(drawn) if ratio.is_share else mean_interval(ratio) for ratio in ratios]


def mean_interval(ratio: Ratio) -> Estimate:
    """Of the problems that say anything of it."""
    own = ratio.at(ratio.told)
    found = student_interval(own.values, own.freedom, ratio.value)
    return within(found, ratio.least, ratio.most)


def within(found: Estimate, least: float, most: float) -> Estimate:
    """Cut an interval to the possible values: no true value is lost, so it holds the truth as often as before."""
    return replace(found, low=max(found.low, least), high=min(found.high, most)) if isfinite(found.low) else found


def share_intervals(ratios: Sequence[Ratio], num_resamples: int, seed: int) -> list[Estimate]:
    """The Bayesian bootstrap with imagined problems of average size."""
    if not ratios:
        return []
    parts = [run for ratio in ratios for run in zip(ratio.top, ratio.bottom, strict=True)]
    top_PF, bottom_PF = (np.stack(rows, axis=1) for rows in zip(*parts, strict=True))
    top_RF, bottom_RF = weighted_sums(top_PF, bottom_PF, num_resamples, seed)
    imagined = np.random.default_rng([seed, 1])
    near_R1, far_R1 = (imagined.standard_gamma(IMAGINED, (num_resamples, 1)) for _ in range(2))
    size_F = _divide(bottom_PF.sum(axis=0), (bottom_PF > 0).sum(axis=0).astype(np.float64))
    whole_RF = bottom_RF + (near_R1 + far_R1) * size_F
    least_F, most_F = seen(top_PF, bottom_PF)
    low_RF = _divide(top_RF + far_R1 * size_F * most_F, whole_RF)
    high_RF = _divide(top_RF + (near_R1 + far_R1 * least_F) * size_F, whole_RF)
    found, first = [], 0
    for ratio in ratios:
        runs = slice(first, first := first + len(ratio.top))
        found.append(share_interval(ratio, low_RF[:, runs].mean(axis=1), high_RF[:, runs].mean(axis=1)))
    return found


def share_interval(ratio: Ratio, low_R: Floats, high_R: Floats) -> Estimate:
    """Quantiles of the draws for either end; where all problems say the same extreme, what chance lets them say so."""
    value, num = ratio.value, int((ratio.bottom > 0).any(axis=0).sum())
    if num == 0:
        return Estimate(value=0.0, low=0.0, high=0.0)
    alike = LEVELS[0] ** (1 / num)
    low = alike if value == 1 else float(np.quantile(low_R, LEVELS[0]))
    high = 1 - alike if value == 0 else float(np.quantile(high_R, LEVELS[1]))
    return _around(value, low, high)


def seen(top_PF: Floats, bottom_PF: Floats) -> tuple[Floats, Floats]:
    """The least and the most share of any problem that has one."""
    share_PF = _divide(top_PF, bottom_PF)
    return np.where(bottom_PF > 0, share_PF, 1.0).min(axis=0), np.where(bottom_PF > 0, share_PF, 0.0).max(axis=0)


def student_interval(values_P: Floats, freedom: int, value: float) -> Estimate:
    """Student's interval with Willink's correction: with skewness g and a = g / (6 sqrt(n)), the mean less
    t' s / sqrt(n), t' = ((1 + 6a(t - a))^(1/3) - 1) / 2a. No width where enough problems all say the same."""
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
    """Willink's t' of t."""
    return t if abs(bend) < 1e-6 else float(np.cbrt(1 + 6 * bend * (t - bend)) - 1) / (2 * bend)


def student(freedom: int) -> float:
    """Student's .975 quantile, by Fisher's expansion (Abramowitz and Stegun 26.7.5) where it is within .1%."""
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
    """Ours less theirs on the same problems, of which `mine` and `other` are the intervals."""
    if not (ours.is_share and theirs.is_share):
        told = ours.told | theirs.told
        one, two = ours.at(told), theirs.at(told)
        gap = ours.value - theirs.value
        found = student_interval(one.values - two.values, min(one.freedom, two.freedom), gap)
        return within(found, ours.least - theirs.most, ours.most - theirs.least)
    alike = correlation(ours.values, theirs.values)
    gap = mine.value - other.value
    down = reach(mine.value - mine.low, other.high - other.value, alike)
    up = reach(mine.high - mine.value, other.value - other.low, alike)
    return Estimate(value=gap, low=max(gap - down, -1.0), high=min(gap + up, 1.0))


def reach(one: float, two: float, alike: float) -> float:
    """How far a difference may be off whose sides may be off by so much, and not independently."""
    return sqrt(max(0.0, one**2 + two**2 - 2 * alike * one * two))


def correlation(one_P: Floats, two_P: Floats) -> float:
    """Of the two values of each problem; 0 where one is the same on all."""
    one, two = one_P - one_P.mean(), two_P - two_P.mean()
    scale = sqrt(float((one**2).sum() * (two**2).sum()))
    return float((one * two).sum()) / scale if scale > 1e-12 else 0.0


def weighted_sums(top_PF: Floats, bottom_PF: Floats, num_resamples: int, seed: int) -> tuple[Floats, Floats]:
    """Both sums under each resample's weights: (R, F)."""
    both = np.concatenate([top_PF, bottom_PF], axis=1)
    blocks = [_weigh(weights, both) for weights in _weights(len(both), num_resamples, seed)]
    top_RF, bottom_RF = np.split(np.concatenate(blocks), 2, axis=1)
    return top_RF, bottom_RF


def _weights(num_problems: int, num_resamples: int, seed: int) -> Iterator[Floats]:
    """Exponential weights of the problems, a block of resamples at a time; divided by their sum, they are uniform."""
    generator = np.random.default_rng(seed)
    block = max(1, BLOCK // num_problems)
    for done in range(0, num_resamples, block):
        yield generator.standard_exponential((min(block, num_resamples - done), num_problems))


def _weigh(weights: Floats, values: Floats) -> Floats:
    """weights @ values, but summed by einsum: a BLAS may add in another order with another number of threads."""
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
        raise ValueError("cannot bootstrap a figure that is not finite on every problem")
