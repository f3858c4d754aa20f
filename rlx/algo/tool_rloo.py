"""Cost-aware Tool-RLOO: RLOO over episodes that call tools, on a reward that charges for them.

    R   = correct - l_call N_calls - l_token N_tool_tokens - l_error N_failed - l_mismatch N_mismatch    (equation 1)
    A_i = R_i - 1/(n-1) * sum of R_j over j != i                 (or, with best_of=k, what i adds to the best of k)
    loss = - 1/|tokens| * sum over the model's own tokens of A_i log pi  [+ kl * KL(pi || reference) - entropy * H]

Source: "Cost-Aware Tool-Integrated Reasoning for Countdown Arithmetic", section 3. Equation 1 is not computed here: the
environment prices each turn's tool use and `Turn.reward` is net of it, so credit sees R as it is. Observations are
context and carry no loss. The paper starts from `tool_sft`. The mathematics is `rloo`'s, with options meant to keep
Pass@k: `kl`, `entropy`, `best_of`, `unsolved_in`, a discount `gamma` that compares turn by turn, no division by the
standard deviation. Without tools nothing is charged.
Against GRPO: the baseline leaves i out, returns are not divided by their standard deviation, and the ratio is clipped
only if `clip` is given.
"""

from __future__ import annotations

from functools import partial

from rlx.algo import credit, losses
from rlx.algo.parts import Algorithm, Optimizer
from rlx.algo.samplers import NumSamples, independent
from rlx.base.limits import MANY, above, at_least, refuse, within


def tool_rloo(
    *,
    optimizer: Optimizer,
    num_prompts: int = 16,
    num_samples: NumSamples = 16,
    best_of: int = 1,
    scale: credit.Scale = "none",
    deviation_floor: float = 0.0,
    gamma: float | None = None,
    unsolved_in: int | None = None,
    clip: float | None = None,
    sequence_cap: float | None = None,
    loss: losses.PolicyLoss = losses.PLAIN,
) -> Algorithm:
    """RLOO with tools; `clip` (PPO's, both sides) is for more than one optimizer step a batch.

    Args:
        best_of: Number k of episodes: credit is what an episode adds to the best of k, which protects Pass@k; 1: the
            plain leave-one-out advantage.
        scale: Scale of advantages with best_of=1: none, or std (divide by the standard deviation of the group).
        deviation_floor: Smallest divisor (scale=std).
        gamma: Discount of a turn's return-to-go, compared with the same turn of the group's other episodes; null: every
            turn has the episode's return.
        unsolved_in: Number of tries: a task's weight is the chance that they leave it unsolved, which protects Pass@k;
            null: equal weights.
        clip: PPO's clip range, both sides, for more than one optimizer step a batch; null: plain policy gradient.
        sequence_cap: Cap of the importance weight of a whole episode; null: no importance weight.
    """
    at_least(2, num_samples=num_samples)
    above(0, 1, clip=clip)
    within(1, MANY, unsolved_in=unsolved_in)
    if not 1 <= best_of <= num_samples:
        refuse("best_of", best_of, f"an integer from 1 to num_samples={num_samples}")
    if best_of > 1 and scale != "none":
        refuse("scale", scale, f"none, as it is for plain leave-one-out credit (best_of=1) and best_of={best_of}")
    if clip is not None and sequence_cap is not None:
        refuse(
            "sequence_cap", sequence_cap, f"null, as it is for the plain policy gradient (clip=null) and clip={clip}"
        )
    leave_one_out = credit.leave_one_out(scale=scale, deviation_floor=deviation_floor, gamma=gamma)
    plain = leave_one_out if best_of == 1 else credit.best_of(best_of, gamma)
    token_loss = partial(
        losses.policy_loss, losses.policy_gradient(sequence_cap) if clip is None else losses.clip(clip, clip)
    )
    return Algorithm(
        sample=independent(num_samples),
        credit=plain if unsolved_in is None else credit.where_unsolved(plain, unsolved_in),
        **losses.loss_parts(token_loss, loss),
        optimizer=optimizer,
        num_prompts=num_prompts,
        plain_gradient=clip is None and sequence_cap is None,
        start="demonstrations",
    )
