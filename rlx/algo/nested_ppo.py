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
from rlx.base.limits import above, refuse


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
    """`num_samples` independent episodes a task; those that ended in an error are left out.

    Args:
        num_samples: Episodes a task; no group is needed, so 1 will do.
        worth: Credit of a turn: nested (returns without later penalties), final or sum (the last reward, or the
            episode's, for all turns: a bandit), turn (GAE over turns) or bilevel (GAE over turns, then over tokens).
        indices: Indices of values: as_released measures a token against the value before it; paper is algorithm 1 as
            printed, whose last token is never trained.
        gamma: Discount of a turn; shipped options take the environment's, which is GEM's (0.9 for games and questions
            on pages, else 1).
        lam: Lambda over turns.
        token_gamma: Discount of a token within its turn.
        token_lam: Lambda over a turn's tokens; the paper has 0.98 for replies of at most 20 tokens, which would forget
            the outcome over a long thought.
        reward_kl: Price of KL(policy || start policy) in the reward of each token.
        whiten: Shift and scale advantages to mean 0 and standard deviation 1 over the batch's tokens.
        clip: Clip range of the ratio: 1 - clip to 1 + clip.
        value_weight: Weight of the critic's squared error.
        value_clip: Clip range of the value loss around the old value; null: no clipping.
        value_limit: Error of a value beyond which the value loss grows linearly, so that a bad critic does not drown
            the policy; null: none.
    """
    above(0, 1, clip=clip)
    if loss.kl_target is not None:
        refuse("loss.kl_target", loss.kl_target, "null: here reward_kl.target adapts the KL")
    form = Nested(worth=worth, indices=indices, gamma=gamma, lam=lam, token_gamma=token_gamma, token_lam=token_lam)
    make_credit = partial(nested_gae, form, whiten=whiten)
    policy_loss = losses.policy_loss(losses.clip(clip, clip), loss)
    critic_loss = losses.value_loss(value_weight=value_weight, value_clip=value_clip, value_limit=value_limit)
    return Algorithm(
        sample=independent(num_samples),
        credit=make_credit(reward_kl.weight),
        loss=losses.sum_losses(policy_loss, critic_loss),
        needs=loss.needs | (frozenset({"reference"}) if reward_kl.weight else frozenset()),
        memory=adaptive_reward_kl(reward_kl, make_credit),
        critic=critic,
        optimizer=optimizer,
        num_prompts=num_prompts,
        num_turns=num_turns,
    )
