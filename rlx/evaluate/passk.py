"""Pass@k without bias, and how far any figure is to be trusted: 95% intervals by bootstrap over problems.

A run's figures come from the same few problems, so what varies is which problems were drawn. Every interval here
resamples problems (not samples), and every figure of a run uses the same resamples. Numpy only.

Shapes: P problems, R resamples.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import comb

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]

LEVELS = (0.025, 0.975)
"""The quantiles that bound a 95% interval."""

BLOCK = 1 << 20
"""Problems drawn at once, to bound memory."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """A figure and its 95% interval."""

    value: float
    low: float
    high: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Ratio:
    """A figure that is a sum over problems divided by another: a mean where `bottom` is ones, else a rate.

    0 where `bottom` sums to 0: no calls, none of them failed.
    """

    top: Floats
    bottom: Floats


def pass_at_k(num_samples: int, num_correct: int, k: int) -> float:
    """1 - C(n-c, k) / C(n, k): the chance that k of n samples, drawn without putting back, hold a correct one.

    Unbiased for 1 - (1-p)^k (Chen et al. 2021, arXiv:2107.03374, equation 1). Whole numbers until one last division, so
    the result is the nearest float to the exact value.
    """
    if not 0 <= num_correct <= num_samples:
        raise ValueError(f"pass@k: {num_correct} correct of {num_samples} samples cannot be")
    if not 1 <= k <= num_samples:
        raise ValueError(f"pass@{k} needs k from 1 to the number of samples, {num_samples}: draw more samples")
    total = comb(num_samples, k)
    return (total - comb(num_samples - num_correct, k)) / total


def mean_of(values: ArrayLike) -> Ratio:
    """The plain mean over problems."""
    top = np.asarray(values, dtype=np.float64)
    return Ratio(top=top, bottom=np.ones_like(top))


def estimates(ratios: Mapping[str, Ratio], num_resamples: int = 10_000, seed: int = 0) -> dict[str, Estimate]:
    """Every figure with the percentile interval of its bootstrap over problems.

    A figure that is the same on every problem has an interval of no width: read it beside the number of problems.
    """
    if not ratios:
        return {}
    values, drawn = _resample(list(ratios.values()), num_resamples, seed)
    return {name: _interval(values[i], drawn[:, i]) for i, name in enumerate(ratios)}


def estimate(values: ArrayLike, num_resamples: int = 10_000, seed: int = 0) -> Estimate:
    """The mean of one value per problem, with its interval."""
    return estimates({"": mean_of(values)}, num_resamples, seed)[""]


def compare(
    ours: Mapping[str, Ratio], theirs: Mapping[str, Ratio], num_resamples: int = 10_000, seed: int = 0
) -> dict[str, Estimate]:
    """Ours less theirs, figure by figure, on the same problems in the same order: a paired bootstrap.

    Each resample takes the same problems of both, so what makes a problem hard cancels.
    """
    names = [name for name in ours if name in theirs]
    pairs = [ours[name] for name in names] + [theirs[name] for name in names]
    if not names:
        return {}
    values, drawn = _resample(pairs, num_resamples, seed)
    half = len(names)
    gaps, drawn_gaps = values[:half] - values[half:], drawn[:, :half] - drawn[:, half:]
    return {name: _interval(gaps[i], drawn_gaps[:, i]) for i, name in enumerate(names)}


def paired(
    ours: Mapping[str, float], theirs: Mapping[str, float], num_resamples: int = 10_000, seed: int = 0
) -> Estimate:
    """The mean difference of two runs, from one value per task id; both must have the same tasks."""
    require_same_tasks(tuple(ours), tuple(theirs))
    mine, other = list(ours.values()), [theirs[task] for task in ours]
    return compare({"": mean_of(mine)}, {"": mean_of(other)}, num_resamples, seed)[""]


def require_same_tasks(ours: Sequence[str], theirs: Sequence[str]) -> None:
    """ValueError unless both name the same tasks, each once."""
    odd = sorted(set(ours) ^ set(theirs))
    if odd or len(set(ours)) != len(ours) or len(set(theirs)) != len(theirs):
        example = f", e.g. {odd[0]!r}" if odd else ""
        raise ValueError(
            f"a paired comparison needs the same tasks, once each, in both runs: {len(ours)} and {len(theirs)} tasks, "
            f"{len(odd)} in one only{example}; evaluate both with the same env and evaluate settings"
        )


def _interval(value: float, drawn_R: Floats) -> Estimate:
    low, high = np.quantile(drawn_R, LEVELS)
    return Estimate(value=float(value), low=float(min(low, value)), high=float(max(high, value)))


def _resample(ratios: Sequence[Ratio], num_resamples: int, seed: int) -> tuple[Floats, Floats]:
    """Each ratio over all problems, and over each of R resamples of them: (ratios), (R, ratios)."""
    top = np.stack([ratio.top for ratio in ratios], axis=1)
    bottom = np.stack([ratio.bottom for ratio in ratios], axis=1)
    num_problems = len(top)
    if num_problems == 0 or num_resamples < 1:
        raise ValueError(
            f"cannot bootstrap {num_problems} problems with {num_resamples} resamples: give at least 1 each"
        )
    if not (np.isfinite(top).all() and np.isfinite(bottom).all()):
        raise ValueError("cannot bootstrap a figure that is not finite on every problem")
    blocks = [
        _divide(_weigh(counts, top), _weigh(counts, bottom)) for counts in _draws(num_problems, num_resamples, seed)
    ]
    once = np.ones((1, num_problems))
    return _divide(_weigh(once, top), _weigh(once, bottom))[0], np.concatenate(blocks)


def _draws(num_problems: int, num_resamples: int, seed: int) -> Iterator[Floats]:
    """How often each problem is in each resample, a block of resamples at a time."""
    generator = np.random.default_rng(seed)
    block = max(1, BLOCK // num_problems)
    for done in range(0, num_resamples, block):
        rows = min(block, num_resamples - done)
        index = generator.integers(0, num_problems, size=(rows, num_problems))
        flat = index + num_problems * np.arange(rows)[:, None]
        counts = np.bincount(flat.ravel(), minlength=rows * num_problems)
        yield counts.reshape(rows, num_problems).astype(np.float64)


def _weigh(counts: Floats, values: Floats) -> Floats:
    """counts @ values, but summed by einsum: a BLAS may add in another order with another number of threads."""
    return np.einsum("rp,pf->rf", counts, values)


def _divide(top: Floats, bottom: Floats) -> Floats:
    return np.divide(top, bottom, out=np.zeros_like(top), where=bottom != 0)
