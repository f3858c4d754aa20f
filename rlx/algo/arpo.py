"""ARPO: a coin after every turn's result, tilted by the turn's gain in entropy, decides whether the episode forks.

    P(fork) = clip(1/2 + tilt * dH, 0, 1),   dH = H(turn) - H(the first turn that the episode sampled)
    A(leaf) = z(R; episodes of the task),    z(R) = (R - mean) / (sample std + eps)
    loss    = - mean over tokens of min(r A, clip(r, 1 - clip_low, 1 + clip_high) A), every leaf a whole episode

H is the entropy of the ten likeliest ids, -sum of p log p, added up over the first 20 tokens of a turn, over
log(num_ids). `uncertainty=surprise`, which has no source, takes -log p of the sampled ids. A shared turn counts once
for each leaf below it (see rlx/algo/tree_grpo.py).

Source: "Agentic Reinforced Policy Optimization" (arXiv:2507.19849) and its code. Differences from the code: dH is
against the episode's own first turn (there against that of the first batch, by the episode's number); where no episode
goes on, one fresh episode begins a round until there are enough (there copies of the last fill up what is left).
Against CARL: random forks with a tilt, and an episode's outcome for all of its turns.
"""

from __future__ import annotations

from rlx.algo.backup import beside, credit_edges, forest_of, groups_of, leaf_means, leaf_returns, num_copies
from rlx.algo.coins import Uncertainty, by_coin
from rlx.algo.credit import standardise
from rlx.algo.losses import PLAIN, ClipHigh, ClipLow, PolicyLoss, clipped_loss, loss_parts
from rlx.algo.parts import Algorithm, Beginning, Credit, Credited, Optimizer, Space
from rlx.algo.rows import Rows
from rlx.base.limits import within


def arpo(
    *,
    optimizer: Optimizer,
    num_prompts: int = 16,
    num_samples: int = 16,
    num_fresh: int = 8,
    tilt: float = 0.2,
    num_ids: int = 151936,
    uncertainty: Uncertainty = "top10",
    clip_low: ClipLow = 0.2,
    clip_high: ClipHigh = 0.2,
    loss: PolicyLoss = PLAIN,
    start: Beginning = "any",
    space: Space = "any",
) -> Algorithm:
    """`num_samples` episodes a task, `num_fresh` of them fresh and the others forks.

    Args:
        num_samples: Episodes a task, fresh ones and forks.
        num_fresh: Fresh episodes a task.
        tilt: Weight of the gain in entropy in a fork's probability; 0 forks half of the time.
        num_ids: Number whose logarithm divides a turn's entropy: the vocabulary's size (this one is Qwen2.5's).
        uncertainty: Entropy of a turn, over its first 20 tokens: top10 (of the ten likeliest ids of each), or surprise
            (-log p of the sampled ids).
    """
    within(0.0, 1e3, tilt=tilt)
    token_loss = clipped_loss(clip_low, clip_high)
    return Algorithm(
        sample=by_coin(num_samples, num_fresh, lambda gain, _: chance(tilt * gain), num_ids, uncertainty),
        credit=outcome_of_leaves(),
        **loss_parts(token_loss, loss),
        optimizer=optimizer,
        num_prompts=num_prompts,
        start=start,
        space=space,
    )


def chance(tilted: float) -> float:
    """Return the probability of a fork."""
    return min(1.0, max(0.0, 0.5 + tilted))


def outcome_of_leaves(eps: float = 1e-6) -> Credit:
    """Credit each edge with the mean of z(R) over the leaves below it, once for each."""

    def credit(rows: Rows) -> Credited:
        forest = forest_of(rows)
        leaves = beside(leaf_returns(forest), groups_of(forest), standardise("sample", eps))
        return credit_edges(forest, leaf_means(forest, leaves), num_copies(forest))

    return credit
