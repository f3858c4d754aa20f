"""A2C over turns: a critic says what a turn should earn, and the policy gradient has what it earned beyond that.

    d_t  = r_t + gamma V_(t+1) - V_t;   A_t = sum over k of (gamma lam)^k d_(t+k);   G_t = A_t + V_t   (t counts turns)
    loss = - 1/|tokens| * sum of A log pi  + value_weight * mean (V - G)^2    [+ kl * KL(pi || reference) - entropy * H]

V_t is read before a turn's first token; all tokens of a turn have its A, and are drawn to its G. Source: Mnih et al.
2016 (arXiv:1602.01783) without its threads, GAE of Schulman et al. 2016 (arXiv:1506.02438); for turns as in GEM (Liu
et al. 2025, arXiv:2510.01051, equation 3). Against GRPO: a critic in the group's place, so that an episode alone will
do and every turn has an advantage of its own; no ratio is clipped, so a batch is used once (`ppo` clips).
"""

from __future__ import annotations

from rlx.algo.gae import gae_over_turns
from rlx.algo.losses import PLAIN, PolicyLoss, loss_parts, policy_gradient, policy_loss, sum_losses, value_loss
from rlx.algo.parts import Algorithm, Critic, Optimizer, TokenLoss
from rlx.algo.samplers import independent


def a2c(
    *,
    optimizer: Optimizer,
    critic: Critic,
    num_prompts: int = 16,
    num_samples: int = 8,
    num_turns: int | None = None,
    gamma: float = 0.9,
    lam: float = 0.95,
    value_weight: float = 0.5,
    loss: PolicyLoss = PLAIN,
) -> Algorithm:
    """`num_samples` independent episodes a task, whose turns are measured by what the critic expected.

    Args:
        num_samples: Episodes a task; no group is needed, so 1 will do.
        gamma: Discount of a turn; shipped options take the environment's, which is GEM's (0.9 for games and questions
            on pages, else 1).
        lam: Lambda of GAE over turns.
        value_weight: Weight of the critic's squared error.
    """
    critic_loss = value_loss(value_weight=value_weight)

    def token_loss(loss: PolicyLoss) -> TokenLoss:
        return sum_losses(policy_loss(policy_gradient(), loss), critic_loss)

    return Algorithm(
        sample=independent(num_samples),
        credit=gae_over_turns(gamma=gamma, lam=lam),
        **loss_parts(token_loss, loss),
        critic=critic,
        optimizer=optimizer,
        num_prompts=num_prompts,
        num_turns=num_turns,
        plain_gradient=True,
    )
