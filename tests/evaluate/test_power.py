"""The smallest difference that an evaluation detects, beside simulated evaluations."""

from __future__ import annotations

import numpy as np
import pytest

from rlx.evaluation.figures import Score, gains
from rlx.evaluation.power import smallest_difference

NUM_TRIALS = 200


def table(successes: np.ndarray, num_samples: int) -> list[Score]:
    return [
        Score(task=str(index), num_samples=num_samples, num_correct=int(num)) for index, num in enumerate(successes)
    ]


@pytest.mark.parametrize(("num_tasks", "num_samples", "spread"), [(100, 4, 0.0), (60, 8, 0.15)])
def test_it_is_detected_about_four_times_in_five(num_tasks: int, num_samples: int, spread: float) -> None:
    """Success rates lie around .4 and, of the better policy, above it by the difference, more or less by task."""
    within = 0.24 - spread**2 / 2
    gap = smallest_difference(num_tasks, num_samples, spread=spread, within=within)
    generator, found = np.random.default_rng(0), 0
    for _ in range(NUM_TRIALS):
        rates = np.clip(0.4 + gap + spread * generator.choice([-1.0, 1.0], num_tasks), 0, 1)
        ours, theirs = generator.binomial(num_samples, rates), generator.binomial(num_samples, 0.4, num_tasks)
        tables = (table(ours, num_samples), table(theirs, num_samples))
        found += gains(*tables, ks=[1], num_resamples=400)["gain/pass@1"].low > 0
    assert 0.68 < found / NUM_TRIALS < 0.9  # the standard error of a share of .8 is .028


def test_tasks_reduce_it_by_their_root_and_samples_to_the_spread_alone() -> None:
    assert smallest_difference(400, 4, spread=0.2) == pytest.approx(smallest_difference(100, 4, spread=0.2) / 2)
    assert smallest_difference(100, 10**9, spread=0.2) == pytest.approx(2.8016 * 0.02, rel=1e-4)
    assert smallest_difference(50, 16) == smallest_difference(50, 4, num_seeds=4)
