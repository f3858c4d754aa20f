"""GRPO: PPO's clip with a group of samples in the critic's place.

    A_i = (R_i - mean R) / (std R + eps)                       (or, with gamma, of each turn's return-to-go G_it)
    loss = - mean over tokens of min(r A_i, clip(r, 1 - clip_low, 1 + clip_high) A_i)  [+ kl * KL(pi || reference)]

r = pi / pi_old. Source: Shao et al. 2024, DeepSeekMath (arXiv:2402.03300). Projects differ in the divisor (`std`,
`eps`) and in how tokens are added up (`loss.normalisation`: the paper's is `sequence`); the others describe themselves
against this one. `gamma` is for episodes of several turns: each is credited with what it and those after it earned,
beside the same turn of the others.
"""

from __future__ import annotations

from rlx.algo.credit import Deviation, Scale, dropping_equal, group_centred
from rlx.algo.losses import PLAIN, ClipHigh, ClipLow, PolicyLoss, clipped_loss, loss_parts
from rlx.algo.parts import Algorithm, Beginning, Optimizer, Space
from rlx.algo.samplers import NumSamples, independent
from rlx.base.limits import at_least


def grpo(
    *,
    optimizer: Optimizer,
    num_prompts: int = 16,
    num_samples: NumSamples = 16,
    scale: Scale = "std",
    std: Deviation = "sample",
    eps: float = 1e-6,
    gamma: float | None = None,
    drop_equal: bool = False,
    clip_low: ClipLow = 0.2,
    clip_high: ClipHigh = 0.2,
    loss: PolicyLoss = PLAIN,
    start: Beginning = "any",
    space: Space = "any",
) -> Algorithm:
    """`num_samples` independent episodes a task, each measured by its group's mean and spread.

    Args:
        scale: Scale of advantages: none, or std (divide by the standard deviation of the group).
        std: Divisor of advantages: sample (over n-1) or population (over n) standard deviation.
        eps: Constant added to the divisor.
        gamma: Discount of a turn's return-to-go, compared with the same turn of the group's other episodes; null: every
            turn has the episode's return.
        drop_equal: Leave out groups whose episodes all have the same reward: they cost no compute, and add no KL or
            entropy term.
    """
    at_least(2, num_samples=num_samples)
    token_loss = clipped_loss(clip_low, clip_high)
    return Algorithm(
        sample=independent(num_samples),
        credit=dropping_equal(group_centred(scale=scale, std=std, eps=eps, gamma=gamma), drop_equal),
        **loss_parts(token_loss, loss),
        optimizer=optimizer,
        num_prompts=num_prompts,
        start=start,
        space=space,
    )
