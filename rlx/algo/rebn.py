"""ReBN: REINFORCE on returns that are normalised over all turns of the batch.

    G_t = r_t + gamma r_(t+1) + gamma^2 r_(t+2) + ...          (t counts turns)
    A_t = (G_t - mean G) / (std G + eps)                       (mean and population std over the whole batch)

and the loss of `reinforce` with A for G. Source: GEM (Liu et al. 2025, arXiv:2510.01051, equation 4 and algorithm 1).
`among=turn` takes mean and std over the turns that are as far in their episodes, an ablation. GRPO compares the
episodes of one task; ReBN compares all turns of the batch. So no group is needed, and rewards of single turns and any
discount count. But a turn of a hard task is worth less than one of an easy task.
"""

from __future__ import annotations

from dataclasses import replace

from rlx.algo.credit import Among, batch_normalised
from rlx.algo.losses import PLAIN, PolicyLoss
from rlx.algo.parts import Algorithm, Optimizer
from rlx.algo.reinforce import reinforce


def rebn(
    *,
    optimizer: Optimizer,
    num_prompts: int = 16,
    num_samples: int = 8,
    num_turns: int | None = None,
    gamma: float = 0.9,
    among: Among = "batch",
    eps: float = 1e-9,
    clip: float | None = 0.2,
    loss: PolicyLoss = PLAIN,
) -> Algorithm:
    """`num_samples` independent episodes a task, whose turns are measured by those of the whole batch.

    Args:
        num_samples: Episodes a task; no group is needed, so 1 will do.
        gamma: Discount of a turn; shipped options take the environment's, which is GEM's (0.9 for games and questions
            on pages, else 1).
        among: Set for mean and deviation: batch (all turns), or turn (turns with the same index).
        eps: Constant added to the divisor.
        clip: PPO's clip range, both sides, for more than one optimizer step a batch; null: plain policy gradient.
    """
    plain = reinforce(
        optimizer=optimizer,
        num_prompts=num_prompts,
        num_samples=num_samples,
        num_turns=num_turns,
        gamma=gamma,
        clip=clip,
        loss=loss,
    )
    return replace(plain, credit=batch_normalised(gamma=gamma, among=among, eps=eps))
