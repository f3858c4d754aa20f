"""RLOO: REINFORCE with the mean of the other samples as baseline.

    A_i = R_i - 1/(n-1) * sum of R_j over j != i               (or, with gamma, of each turn's return-to-go G_it)
    loss = - 1/|tokens| * sum of w A_i log pi(token | context)  [+ kl * KL(pi || reference) - entropy * H]

Source: Ahmadian et al. 2024, "Back to Basics" (arXiv:2402.14740); here the KL is a term of the loss, not of the reward.
w is 1, or the trajectory's importance weight capped at `sequence_cap` (CS224R's course code). Against GRPO: the
baseline leaves i out (n/(n-1) times the centred return), nothing is divided by the standard deviation, and no ratio
is clipped.
"""

from __future__ import annotations

from functools import partial

from rlx.algo.credit import Scale, leave_one_out
from rlx.algo.losses import PLAIN, PolicyLoss, loss_parts, policy_gradient, policy_loss
from rlx.algo.parts import Algorithm, Optimizer
from rlx.algo.samplers import NumSamples, independent
from rlx.base.limits import at_least


def rloo(
    *,
    optimizer: Optimizer,
    num_prompts: int = 16,
    num_samples: NumSamples = 16,
    scale: Scale = "none",
    gamma: float | None = None,
    sequence_cap: float | None = None,
    loss: PolicyLoss = PLAIN,
) -> Algorithm:
    """`num_samples` independent episodes a task, each compared with the others.

    Args:
        scale: Scale of advantages: none, or std (divide by the standard deviation of the group).
        gamma: Discount of a turn's return-to-go, compared with the same turn of the group's other episodes; null: every
            turn has the episode's return.
        sequence_cap: Cap of the importance weight of a whole episode; null: no importance weight.
    """
    at_least(2, num_samples=num_samples)
    token_loss = partial(policy_loss, policy_gradient(sequence_cap))
    return Algorithm(
        sample=independent(num_samples),
        credit=leave_one_out(scale=scale, gamma=gamma),
        **loss_parts(token_loss, loss),
        optimizer=optimizer,
        num_prompts=num_prompts,
        plain_gradient=sequence_cap is None,
        start="demonstrations",
        space="text",
    )
