"""PPO over turns: a critic says what a turn should earn, and policy and critic stay near where they sampled.

    d_t  = r_t + gamma V_(t+1) - V_t;   A_t = sum over k of (gamma lam)^k d_(t+k);   G_t = A_t + V_t   (t counts turns)
    loss = - 1/|tokens| * sum of min(r A, clip(r, 1 - clip, 1 + clip) A)
           + value_weight * mean of (V - G)^2                            [+ kl * KL(pi || reference) - entropy * H]

r = pi / pi_old. V_t is read before a turn's first token; all tokens of a turn share its A and its value target G. With
`value_clip`, the value loss is the larger of two: with V, and with V clipped around the old value. Source: Schulman et
al. 2017 (arXiv:1707.06347); for turns as in GEM (Liu et al. 2025, arXiv:2510.01051). Against GRPO: a critic replaces
the group, so that a single episode per task is enough and every turn has its own advantage.
"""

from __future__ import annotations

from rlx.algo import losses
from rlx.algo.gae import gae_over_turns
from rlx.algo.parts import Algorithm, Critic, Optimizer, TokenLoss
from rlx.algo.samplers import independent
from rlx.base.limits import above


def ppo(
    *,
    optimizer: Optimizer,
    critic: Critic,
    num_prompts: int = 16,
    num_samples: int = 8,
    num_turns: int | None = None,
    gamma: float = 0.9,
    lam: float = 0.95,
    clip: float = 0.2,
    value_weight: float = 0.5,
    value_clip: float | None = None,
    loss: losses.PolicyLoss = losses.PLAIN,
) -> Algorithm:
    """`num_samples` independent episodes a task, whose turns are measured by what the critic expected.

    Args:
        num_samples: Episodes a task; no group is needed, so 1 will do.
        gamma: Discount of a turn; shipped options take the environment's, which is GEM's (0.9 for games and questions
            on pages, else 1).
        lam: Lambda of GAE over turns.
        clip: Clip range of the ratio: 1 - clip to 1 + clip.
        value_weight: Weight of the critic's squared error.
        value_clip: Clip range of the value loss around the old value; null: no clipping.
    """
    above(0, 1, clip=clip)
    critic_loss = losses.value_loss(value_weight=value_weight, value_clip=value_clip)

    def token_loss(loss: losses.PolicyLoss) -> TokenLoss:
        return losses.sum_losses(losses.policy_loss(losses.clip(clip, clip), loss), critic_loss)

    return Algorithm(
        sample=independent(num_samples),
        credit=gae_over_turns(gamma=gamma, lam=lam),
        **losses.loss_parts(token_loss, loss),
        critic=critic,
        optimizer=optimizer,
        num_prompts=num_prompts,
        num_turns=num_turns,
    )
