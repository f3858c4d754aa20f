"""Tool-SFT: copy an expert that calls tools, reads what they answer, revises, and only then answers.

    loss = - 1/|tokens| * sum over the expert's own tokens of log pi(token | context with observations)

Source: cost-aware Tool-RLOO, section 3.3 (staged recovery traces). The mathematics is `sft`'s: what makes it Tool-SFT
is the protocol, whose expert acts in the real environment; observations are context and carry no loss. Against GRPO:
nothing is sampled from the policy, every token of the expert is worth 1, and there is no ratio, clip or baseline.
"""

from __future__ import annotations

from dataclasses import replace

from rlx.algo.losses import Normalisation
from rlx.algo.parts import Algorithm, Optimizer
from rlx.algo.sft import sft


def tool_sft(*, optimizer: Optimizer, num_prompts: int = 32, normalisation: Normalisation = "token") -> Algorithm:
    """Copy demonstrations that use the environment's tools; where it lends none, answers alone.

    Args:
        normalisation: Sum of token losses: token (sum / tokens), sequence (mean per episode), constant (sum / constant,
            per episode).
    """
    copied = sft(optimizer=optimizer, num_prompts=num_prompts, normalisation=normalisation)
    return replace(copied, space="any")
