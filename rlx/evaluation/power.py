"""The smallest difference between two policies that an evaluation detects, before anything is run.

Both policies are sampled m times on each of the same n tasks, by s seeds each. Task i has success rates p_i and q_i.
The estimate of the gain is the mean over tasks of the observed differences.

    Var(gain) = (t^2 + 2 w / (m s)) / n,  t^2 = Var_i(p_i - q_i),  w = E_i[p_i (1 - p_i)] of either policy.

An interval of 95% excludes 0 with a probability of 80% where the true gain is (z_.975 + z_.80) sqrt(Var(gain)). What
makes a task hard for both cancels, so the tasks' difficulties do not matter beyond w. More samples reduce the second
term alone: where policies differ from task to task, only more tasks help. Seeds are averaged as they are: the result is
of these policies, not of the algorithm that made them (docs/intervals.md).
"""

from __future__ import annotations

from math import sqrt

DETECTION = 1.959964 + 0.841621
"""Standard errors of the smallest difference: .975 and .80 quantiles of the normal distribution."""
WITHIN = 1 / 6
"""Mean variance of one sample, where success rates are spread evenly from 0 to 1."""
SPREAD = 0.3
"""Standard deviation over tasks of what training changes, measured: .30 over 30 runs on search, .05 on Countdown."""


def smallest_difference(
    num_tasks: int, num_samples: int, *, spread: float = 0.0, num_seeds: int = 1, within: float = WITHIN
) -> float:
    """Return the smallest difference of Pass@1 that is detected four times in five. `spread` is t in the
    module's formula: 0 if the gain is the same on every task."""
    return DETECTION * sqrt((spread**2 + 2 * within / (num_samples * num_seeds)) / num_tasks)
