"""Figures of an algorithm's credit beside the true advantages, with bootstrap intervals over tasks.

For estimates x and true advantages A of trained turns, with weights w of 1 each, or of their trained tokens:

    correlation   Pearson's, of x with A
    slope         sum w x A / sum w A^2: 1 where estimates are as large as the truth on average
    error         root of the mean of w (x - A)^2
    bias          root of the mean over (state, action) of w (mean x - A)^2, less what noise adds to it
    scaled bias   the same of x / slope: algorithms that divide by a deviation have another unit, which is no bias here
    mean error    mean of w (x - A) on critical turns
    variance      mean over (state, action) of w times the variance of x there
    sign          share of critical turns whose estimate has the sign of A
    zero          share of all sampled turns, or tokens, that learn nothing: left out, in no group, or with x = 0

Two figures are over all sampled turns of the groups. There x is 0 for a turn or token that is not trained. So they
compare algorithms that train different turns:

    correlation of all, error of all

Cosines of gradients are in rlx/lab/gradients.py.

Rounds are independent, so the noise of a cell's mean is taken from its rounds. A bias of 0 is inside the interval where
the squared bias may be 0 or less.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from rlx.lab.laboratory import Measured, Turn
from rlx.runs.summary import Estimate

Floats = NDArray[np.float64]
Weigh = Literal["turn", "token"]
SMALL = 1e-9
"""A true advantage that is smaller has no sign."""
SUMS = (
    *("n", "x", "a", "xx", "aa", "xa", "ee", "cells", "cell_xx", "cell_xa", "cell_aa", "var"),
    *("critical", "critical_e", "signed", "agree", "live", "all"),
    *("all_n", "all_x", "all_a", "all_xx", "all_aa", "all_xa", "all_ee"),
)
"""Sums over the turns of a task."""
RATIOS: dict[str, Callable[[dict[str, Floats]], Floats]] = {
    "correlation": lambda s: correlation(s, ""),
    "correlation of all": lambda s: correlation(s, "all_"),
    "slope": lambda s: ratio(s["xa"], s["aa"]),
    "error": lambda s: np.sqrt(ratio(s["ee"], s["n"])),
    "error of all": lambda s: np.sqrt(ratio(s["all_ee"], s["all_n"])),
    "bias": lambda s: root_bias(s, np.ones_like(s["n"])),
    "scaled bias": lambda s: root_bias(s, ratio(s["aa"], s["xa"])),
    "mean error": lambda s: ratio(s["critical_e"], s["critical"]),
    "variance": lambda s: ratio(s["var"], s["cells"]),
    "sign": lambda s: ratio(s["agree"], s["signed"]),
    "zero": lambda s: 1 - ratio(s["live"], s["all"]),
}


def correlation(s: dict[str, Floats], prefix: str) -> Floats:
    """Return Pearson's correlation, of sums whose names begin with `of`."""
    n, x, a, xx, aa, xa = (s[f"{prefix}{name}"] for name in ("n", "x", "a", "xx", "aa", "xa"))
    return ratio(xa * n - x * a, np.sqrt(positive(xx * n - x**2) * positive(aa * n - a**2)))


def ratio(top: Floats, bottom: Floats) -> Floats:
    return np.divide(top, bottom, out=np.zeros_like(top), where=bottom != 0)


def positive(values: Floats) -> Floats:
    return np.maximum(values, 0.0)


def root_bias(s: dict[str, Floats], scale: Floats) -> Floats:
    """Return the root of the mean over cells of (scale * mean x - A)^2, which noise does not add to."""
    squared = scale**2 * s["cell_xx"] - 2 * scale * s["cell_xa"] + s["cell_aa"]
    return np.sqrt(positive(ratio(squared, s["cells"])))


def credit_figures(measured: Measured, weigh: Weigh, *, num_resamples: int, seed: int) -> dict[str, Estimate]:
    """Return each figure with its interval."""
    sums = task_sums(measured, weigh)

    def figure(statistic: Callable[[dict[str, Floats]], Floats]) -> Estimate:
        return interval(lambda weights: statistic(weigh_sums(sums, weights)), len(measured.values), num_resamples, seed)

    return {name: figure(statistic) for name, statistic in RATIOS.items()}


def task_sums(measured: Measured, weigh: Weigh) -> Floats:
    """Return the sums of each task: (tasks, sums)."""
    sums = np.zeros((len(measured.values), len(SUMS)))
    by_task: dict[int, list[Turn]] = defaultdict(list)
    for turn in measured.turns:
        by_task[turn.task].append(turn)
    num_all = sum(measured.tokens) if weigh == "token" else measured.num_turns
    outside = num_all / sum(turn.num_tokens if weigh == "token" else 1 for turn in measured.turns)
    for task, turns in by_task.items():
        live = [turn.num_trained - turn.num_zero for turn in turns]
        trained = [turn for turn in turns if turn.num_trained]
        named = plain_sums(trained, weigh) | cell_sums(trained, weigh)
        named |= {f"all_{name}": value for name, value in moments(turns, weigh).items()}
        named["live"] = float(sum(live if weigh == "token" else map(bool, live)))
        named["all"] = outside * sum(turn.num_tokens if weigh == "token" else 1 for turn in turns)
        sums[task] = [named[name] for name in SUMS]
    return sums


def weight_of(turn: Turn, weigh: Weigh) -> float:
    return float(turn.num_trained) if weigh == "token" else 1.0


def plain_sums(turns: Sequence[Turn], weigh: Weigh) -> dict[str, float]:
    w = np.array([weight_of(turn, weigh) for turn in turns])
    x = np.array([turn.estimate for turn in turns])
    a = np.array([turn.truth for turn in turns])
    critical = np.array([turn.is_critical for turn in turns], dtype=bool)
    signed = critical & (np.abs(a) > SMALL)
    return {
        **products(w, x, a),
        "critical": w @ critical,
        "critical_e": w @ (critical * (x - a)),
        "signed": w @ signed,
        "agree": w @ (signed & (np.sign(x) == np.sign(a))),
    }


def products(w: Floats, x: Floats, a: Floats) -> dict[str, float]:
    """Return the weighted sums of estimates, truths and their products."""
    return {
        "n": w.sum(),
        "x": w @ x,
        "a": w @ a,
        "xx": w @ x**2,
        "aa": w @ a**2,
        "xa": w @ (x * a),
        "ee": w @ (x - a) ** 2,
    }


def moments(turns: Sequence[Turn], weigh: Weigh) -> dict[str, float]:
    """Return the sums over all turns, or all of their tokens, where what is not trained has an estimate of 0."""
    trained = np.array([turn.num_trained if weigh == "token" else float(turn.num_trained > 0) for turn in turns])
    left_out = np.array([turn.num_tokens if weigh == "token" else 1.0 for turn in turns]) - trained
    x = np.array([turn.estimate for turn in turns])
    a = np.array([turn.truth for turn in turns])
    rest = products(left_out, np.zeros_like(x), a)
    return {name: value + rest[name] for name, value in products(trained, x, a).items()}


def cell_sums(turns: Sequence[Turn], weigh: Weigh) -> dict[str, float]:
    """Return the products of mean estimates and truths, and the variance, over cells that have two rounds. A cell is a
    state and an action of a task."""
    cells: dict[object, list[Turn]] = defaultdict(list)
    for turn in turns:
        cells[turn.state, turn.action].append(turn)
    totals = dict.fromkeys(("cells", "cell_xx", "cell_xa", "cell_aa", "var"), 0.0)
    for cell_turns in cells.values():
        if len({turn.round for turn in cell_turns}) > 1:
            mean, noise, variance = cell_moments(cell_turns)
            weight, truth = sum(weight_of(turn, weigh) for turn in cell_turns), cell_turns[0].truth
            products = {"cells": 1.0, "cell_xx": mean**2 - noise, "cell_xa": mean * truth, "cell_aa": truth**2}
            for name, value in (products | {"var": variance}).items():
                totals[name] += weight * value
    return totals


def cell_moments(turns: Sequence[Turn]) -> tuple[float, float, float]:
    """Return the mean of a cell's estimates, the variance of that mean, and the variance of one estimate."""
    by_round: dict[int, list[float]] = defaultdict(list)
    for turn in turns:
        by_round[turn.round].append(turn.estimate)
    everything = np.array([estimate for estimates in by_round.values() for estimate in estimates])
    mean, num = everything.mean(), len(by_round)
    sums = np.array([sum(estimates) - len(estimates) * mean for estimates in by_round.values()])
    noise = (sums**2).sum() / len(everything) ** 2 * num / (num - 1)
    return float(mean), float(noise), float(everything.var(ddof=1))


def weigh_sums(sums_TF: Floats, weights_RT: Floats) -> dict[str, Floats]:
    return dict(zip(SUMS, (weights_RT @ sums_TF).T, strict=True))


def interval(statistic: Callable[[Floats], Floats], num_tasks: int, num_resamples: int, seed: int) -> Estimate:
    """Return a function of task weights with its 95% interval, by the Bayesian bootstrap over tasks."""
    drawn = np.random.default_rng(seed).standard_exponential((num_resamples, num_tasks))
    value = float(statistic(np.ones((1, num_tasks)))[0])
    low, high = np.quantile(statistic(drawn), [0.025, 0.975])
    return Estimate(value=value, low=min(float(low), value), high=max(float(high), value))
