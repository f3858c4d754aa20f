"""Nested PPO: credit over an episode's turns, then over each turn's tokens, under PPO's clip and a critic.

    turns    G_t = r_t + gamma ((1 - lam) V_t + lam H_(t+1)),   H_t = max(0, r_t) + gamma ((1 - lam) V_t + lam H_(t+1))
    tokens   A_m = GAE(token_gamma, token_lam) of R_m = [m = M] G_t - reward_kl (log pi - log reference)
    loss     = PPO's clip over whitened A + value_weight * (V - (A + V))^2

Source: Gandhi et al. 2025, "Incentivizing both grounding and reasoning", algorithm 1 and its code, which builds on TRL.
`indices=paper` is the algorithm as it is printed. With `worth=final` or `sum` it is the contextual bandit of appendix
F, where all turns have the last reward or the episode's; with `turn` GAE over turns (AReaL), with `bilevel` the
bi-level GAE of VAGEN. Against GRPO: a critic in the group's place, and every token has an advantage of its own.
"""

from __future__ import annotations

from functools import partial

from rlx.algo import losses
from rlx.algo.nested import FREE, Indices, Nested, RewardKL, Worth, adaptive_reward_kl, nested_gae
from rlx.algo.parts import Algorithm, Critic, Optimizer
from rlx.algo.samplers import independent
from rlx.limits import above, refuse


def nested_ppo(
    *,
    optimizer: Optimizer,
    critic: Critic,
    num_prompts: int = 16,
    num_samples: int = 8,
    num_turns: int | None = None,
    worth: Worth = "nested",
    indices: Indices = "as_released",
    gamma: float = 0.9,
    lam: float = 0.95,
    token_gamma: float = 1.0,
    token_lam: float = 0.98,
    reward_kl: RewardKL = FREE,
    whiten: bool = True,
    clip: float = 0.2,
    value_weight: float = 0.05,
    value_clip: float | None = 0.2,
    value_limit: float | None = 1.0,
    loss: losses.PolicyLoss = losses.PLAIN,
) -> Algorithm:
    """`num_samples` independent episodes a task; those that ended in an error are left out."""
    above(0, 1, clip=clip)
    if loss.kl_target is not None:
        refuse("loss.kl_target", loss.kl_target, "null: here reward_kl.target adapts the KL")
    form = Nested(worth=worth, indices=indices, gamma=gamma, lam=lam, token_gamma=token_gamma, token_lam=token_lam)
    made = partial(nested_gae, form, whiten=whiten)
    of_policy = losses.policy_loss(losses.clip(clip, clip), loss)
    of_critic = losses.value_loss(value_weight=value_weight, value_clip=value_clip, value_limit=value_limit)
    return Algorithm(
        sample=independent(num_samples),
        credit=made(reward_kl.weight),
        loss=losses.sum_losses(of_policy, of_critic),
        needs=loss.needs | (frozenset({"reference"}) if reward_kl.weight else frozenset()),
        memory=adaptive_reward_kl(reward_kl, made),
        critic=critic,
        optimizer=optimizer,
        num_prompts=num_prompts,
        num_turns=num_turns,
    )
