"""REINFORCE for episodes of many turns: every turn is paid what it and the turns after it earned.

    G_t  = r_t + gamma r_(t+1) + gamma^2 r_(t+2) + ...         (t counts turns)
    loss = - 1/|tokens| * sum of min(r G, clip(r, 1 - clip, 1 + clip) G)    [+ kl * KL(pi || reference) - entropy * H]

r = pi / pi_old; with `clip=None` it is the plain gradient, - G log pi. Source: Williams 1992; here as in GEM (Liu et
al. 2025, arXiv:2510.01051, equation 1), which passes twice over each batch and therefore clips. GEM divides the sum
over tokens by a constant; the number of tokens gives the same direction in every step. Against GRPO: no group and no
baseline, so that an episode alone will do, but where no reward is below zero nothing is ever pushed down; and of two
episodes that earn the same the shorter is worth more (`gamma` below 1).
"""

from __future__ import annotations

from functools import partial

from rlx.algo import losses
from rlx.algo.credit import discounted
from rlx.algo.parts import Algorithm, Optimizer
from rlx.algo.samplers import independent
from rlx.base.limits import above


def reinforce(
    *,
    optimizer: Optimizer,
    num_prompts: int = 16,
    num_samples: int = 8,
    num_turns: int | None = None,
    gamma: float = 0.9,
    clip: float | None = 0.2,
    loss: losses.PolicyLoss = losses.PLAIN,
) -> Algorithm:
    """`num_samples` independent episodes a task, each measured by itself.

    Args:
        num_samples: Episodes a task; no group is needed, so 1 will do.
        gamma: Discount of a turn; shipped options take the environment's, which is GEM's (0.9 for games and questions
            on pages, else 1).
        clip: PPO's clip range, both sides, for more than one optimizer step a batch; null: plain policy gradient.
    """
    above(0, 1, clip=clip)
    token_loss = partial(losses.policy_loss, losses.policy_gradient() if clip is None else losses.clip(clip, clip))
    return Algorithm(
        sample=independent(num_samples),
        credit=discounted(gamma),
        **losses.loss_parts(token_loss, loss),
        optimizer=optimizer,
        num_prompts=num_prompts,
        num_turns=num_turns,
        plain_gradient=clip is None,
    )
