"""Pass@k without bias, and figures with their intervals, alone or against another run's on the same problems.

A run's figures come from the same few problems, so what varies is which problems were drawn: every interval is over
problems (not samples), as `intervals.py` says, and every figure of a run has the same draws.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import comb

from rlx.base.limits import MistakeError
from rlx.evaluation.intervals import Ratio, difference, intervals
from rlx.runs.summary import Estimate


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


def estimates(ratios: Mapping[str, Ratio], num_resamples: int = 10_000, seed: int = 0) -> dict[str, Estimate]:
    """Every figure with its interval over problems."""
    return dict(zip(ratios, intervals(list(ratios.values()), num_resamples, seed), strict=True))


def compare(
    ours: Mapping[str, Ratio], theirs: Mapping[str, Ratio], num_resamples: int = 10_000, seed: int = 0
) -> dict[str, Estimate]:
    """Ours less theirs, figure by figure, on the same problems in the same order: what makes a problem hard cancels."""
    names = [name for name in ours if name in theirs]
    mine = estimates({name: ours[name] for name in names}, num_resamples, seed)
    other = estimates({name: theirs[name] for name in names}, num_resamples, seed)
    return differences(ours, theirs, mine, other)


def differences(
    ours: Mapping[str, Ratio], theirs: Mapping[str, Ratio], mine: Mapping[str, Estimate], other: Mapping[str, Estimate]
) -> dict[str, Estimate]:
    """`compare` of what both have, whose own intervals are known."""
    shared = [name for name in mine if name in other]
    return {name: difference(ours[name], theirs[name], mine[name], other[name]) for name in shared}


class UnpairedError(MistakeError):
    """Two runs were not evaluated on the same tasks; the message states the difference in one line."""


def require_same_tasks(ours: Sequence[str], theirs: Sequence[str]) -> None:
    """UnpairedError unless both name the same tasks, each once."""
    odd = sorted(set(ours) ^ set(theirs))
    if odd or len(set(ours)) != len(ours) or len(set(theirs)) != len(theirs):
        example = f", e.g. {odd[0]!r}" if odd else ""
        raise UnpairedError(
            f"a paired comparison needs the same tasks, once each, in both runs: {len(ours)} and {len(theirs)} tasks, "
            f"{len(odd)} in one only{example}; evaluate both with the same env and evaluate settings"
        )
