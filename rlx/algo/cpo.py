"""CPO, counterfactual policy optimisation: GRPO, and where a whole group failed what entering an environment would have
changed.

    U_i = f(twin_i, R'_i - R_i)             if no factual R_j of the group is above 0
          f(factual_i, (R_i - mean) / std)  otherwise
    f(tau, a) = sum over t of min(r_t a, clip(r_t, 1 - clip_low, 1 + clip_high) a) - kl * KL(pi || reference)

A twin (rlx.algo.twins) says what its factual episode said up to a place, is forced to enter there, and goes on alone;
all of that is trained, the forced choice too. Against GRPO: the sampler and the credit, nothing else. With the protocol
`expa` it is EARL, whose KL is held over the vocabulary alone. Source: Yue et al. 2025, "Expanding the Action Space of
LLMs to Reason Beyond Language", appendix D.
"""

from __future__ import annotations

from rlx.algo.credit import Deviation
from rlx.algo.losses import PLAIN, ClipHigh, ClipLow, PolicyLoss, adaptive_kl, clipped_loss
from rlx.algo.parts import Algorithm, Optimizer, Space
from rlx.algo.twins import Twins, both, remembered_gains, twin_difference, with_twins
from rlx.base.limits import at_least


def cpo(
    *,
    optimizer: Optimizer,
    num_prompts: int = 16,
    num_samples: int = 8,
    std: Deviation = "sample",
    eps: float = 1e-6,
    clip_low: ClipLow = 0.2,
    clip_high: ClipHigh = 0.2,
    twins: Twins | None = None,
    loss: PolicyLoss = PLAIN,
    space: Space = "entered",
) -> Algorithm:
    """`num_samples` independent episodes a task, and a twin of each where all of them failed.

    Args:
        num_samples: Factual episodes a task.
        std: Divisor of advantages in a group with any reward: sample (over n-1) or population (over n) standard
            deviation.
        eps: Constant added to the divisor.
        twins: Counterfactual twins: condition for playing them, and the place where they branch off.
    """
    at_least(2, num_samples=num_samples)
    token_loss, twins = clipped_loss(clip_low, clip_high), twins or Twins()
    return Algorithm(
        sample=with_twins(num_samples, twins),
        credit=twin_difference(std=std, eps=eps),
        loss=token_loss(loss),
        memory=both(adaptive_kl(loss, token_loss), remembered_gains(num_samples, twins)),
        needs=loss.needs,
        optimizer=optimizer,
        num_prompts=num_prompts,
        start="pretrained",
        space=space,
    )
