"""IPO: regress the log-ratio margin of a right and a wrong answer to a constant, so that it does not run away.

    h    = [log pi(y_w) - log ref(y_w)] - [log pi(y_l) - log ref(y_l)]
    loss = mean over pairs of (h - 1/(2 beta))^2

Source: Azar et al. 2023 (arXiv:2310.12036). Pairs are made as they are needed: episodes of the start policy, judged
by the environment, or groups of a trajectory file (`stored`); a group with a right and a wrong one gives one pair, y_w
its first right, y_l its first wrong.
Against GRPO: the policy that samples never moves, and one pair a group counts instead of every sample. Rewards matter
by success alone, and the pull to the reference is in the target itself.
"""

from __future__ import annotations

from rlx.algo.credit import pairs
from rlx.algo.losses import squared_margin
from rlx.algo.parts import Algorithm, Optimizer
from rlx.algo.samplers import NumSamples, independent, stored
from rlx.base.limits import at_least


def ipo(
    *,
    optimizer: Optimizer,
    num_prompts: int = 32,
    num_samples: NumSamples = 8,
    beta: float = 0.1,
    pairs_from: str | None = None,
) -> Algorithm:
    """`num_samples` tries a task by the start policy, to find a right and a wrong one, or those in `pairs_from`.

    Args:
        beta: The margin of log-ratios is drawn to 1 / (2 beta).
        pairs_from: A trajectory file to take the groups from, such as trajectories/eval-8.jsonl of the start; null
            samples them.
    """
    at_least(2, num_samples=num_samples)
    return Algorithm(
        sample=independent(num_samples) if pairs_from is None else stored(pairs_from, "algo.pairs_from"),
        credit=pairs,
        loss=squared_margin(beta),
        needs=frozenset({"reference"}),
        optimizer=optimizer,
        num_prompts=num_prompts,
        frozen_policy=True,
        unit="group",
        start="demonstrations",
        space="text",
    )
