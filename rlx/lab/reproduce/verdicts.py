"""Verdicts on claims and bands: what an interval over seeds says of a threshold.

    supported           the whole interval is within the bounds
    contradicted        the whole interval is outside of them, on one side
    undecided           the interval holds values of both kinds, or there are too few seeds for an interval over seeds
    not testable here   a ceiling, a floor, the pretraining or the size of the model decides, and not the algorithm

A mean alone decides nothing. A claim of several tests is supported if all testable tests support it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from enum import Enum
from math import isfinite

from rlx.runs.summary import Estimate


class Verdict(Enum):
    """Answer to a claim."""

    SUPPORTED = "supported"
    CONTRADICTED = "contradicted"
    UNDECIDED = "undecided"
    NOT_TESTABLE = "not testable here"


def verdict_of(over_seeds: Estimate | None, least: float, most: float, untestable: str = "") -> Verdict:
    """Return the verdict of a figure with an interval over seeds; `untestable` is the reason for which none can be
    given."""
    if untestable:
        return Verdict.NOT_TESTABLE
    if over_seeds is None or not (isfinite(over_seeds.low) and isfinite(over_seeds.high)):
        return Verdict.UNDECIDED
    if least <= over_seeds.low and over_seeds.high <= most:
        return Verdict.SUPPORTED
    if over_seeds.high < least or most < over_seeds.low:
        return Verdict.CONTRADICTED
    return Verdict.UNDECIDED


def combine(verdicts: Iterable[Verdict]) -> Verdict:
    """Return the verdict on a claim from those of its tests."""
    testable = {verdict for verdict in verdicts if verdict is not Verdict.NOT_TESTABLE}
    if not testable:
        return Verdict.NOT_TESTABLE
    if Verdict.CONTRADICTED in testable:
        return Verdict.CONTRADICTED
    return Verdict.SUPPORTED if testable == {Verdict.SUPPORTED} else Verdict.UNDECIDED


def count_verdicts(verdicts: Iterable[Verdict]) -> str:
    """Return the number of each verdict, such as `2 supported, 0 contradicted, 5 undecided, 1 not testable here`."""
    numbers = Counter(verdicts)
    return ", ".join(f"{numbers[verdict]} {verdict.value}" for verdict in Verdict)
