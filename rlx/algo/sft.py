"""Supervised fine-tuning: copy the environment's expert, in text and without tools.

    loss = - 1/|tokens| * sum over the expert's tokens of log pi(token | context)

Source: cost-aware Tool-RLOO, section 3.1 (its SFT baseline). Against GRPO: nothing is sampled from the policy, every
token is worth 1, and there is no ratio, clip or baseline.
"""

from __future__ import annotations

from rlx.algo.credit import imitate
from rlx.algo.losses import Normalisation, cross_entropy
from rlx.algo.parts import Algorithm, Optimizer
from rlx.algo.samplers import demonstrations


def sft(*, optimizer: Optimizer, num_prompts: int = 32, normalisation: Normalisation = "token") -> Algorithm:
    """Copy demonstrations in the protocol of the run; with `protocol=answer` they are text alone.

    Args:
        normalisation: Sum of token losses: token (sum / tokens), sequence (mean per episode), constant (sum / constant,
            per episode).
    """
    return Algorithm(
        sample=demonstrations(),
        credit=imitate,
        loss=cross_entropy(normalisation=normalisation),
        optimizer=optimizer,
        num_prompts=num_prompts,
        imitates=True,
        space="text",
    )
