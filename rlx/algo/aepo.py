"""AEPO: ARPO whose forks tire, whose fresh episodes follow entropy, and whose loss favours surprising tokens.

    P(fork)   = clip(1 - 1/2 / (1 - fatigue c) + tilt * dH, 0, 1)  after c forks in a row, 0 where fatigue c >= 1
    num_fresh = clip(int(n sigmoid((H(first turn) - mean H(later turns)) / 2)) + 1, 1, n)  by a first episode
    A(token)  = z(R; episodes of the task) * (1 + entropy_weight * z(-log p; tokens of the task))
    loss      = - mean over tokens of min(r A, r' A),  r' = max(r, 1 - clip_low), above 1 + clip_high that value with
                the gradient of (1 + clip_high) r / sg(r)

H, dH and `uncertainty` are ARPO's (rlx/algo/coins.py). -log p of a sampled token stands for its entropy, which credit
does not know; the task's tokens stand for those of a micro-batch, so that A depends on no division of work.

Source: code of "Agentic Entropy-Balanced Policy Optimization", in the repository of AT2PO. No dual clip; the count c
ends with any round without a fork (there with certain ones). Against CARL: as ARPO.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from rlx.algo.arpo import outcome_of_leaves
from rlx.algo.coins import Uncertainty, by_coin
from rlx.algo.credit import standardise
from rlx.algo.losses import PLAIN, ClipHigh, ClipLow, PolicyLoss, Surrogate, loss_parts, policy_loss
from rlx.algo.parts import Algorithm, Beginning, Credit, Credited, Optimizer, PerToken, Space, Tokens
from rlx.algo.rows import Rows
from rlx.base.limits import MANY, above, within

if TYPE_CHECKING:
    from torch import Tensor


def aepo(
    *,
    optimizer: Optimizer,
    num_prompts: int = 16,
    num_samples: int = 16,
    tilt: float = 0.2,
    fatigue: float = 0.05,
    num_ids: int = 151936,
    uncertainty: Uncertainty = "top10",
    entropy_weight: float = 0.2,
    clip_low: ClipLow = 0.2,
    clip_high: ClipHigh = 0.2,
    loss: PolicyLoss = PLAIN,
    start: Beginning = "any",
    space: Space = "any",
) -> Algorithm:
    """`num_samples` episodes a task; a plan counts half of them as forks.

    Args:
        num_samples: Episodes a task, fresh ones and forks.
        tilt: Weight of the gain in entropy in a fork's probability.
        fatigue: Loss of a fork's probability for each round in a row in which the episode has forked.
        num_ids: Number whose logarithm divides a turn's entropy: the vocabulary's size (this one is Qwen2.5's).
        uncertainty: Entropy of a turn, over its first 20 tokens: top10 (of the ten likeliest ids of each), or surprise
            (-log p of the sampled ids).
        entropy_weight: Weight of a token's standardised surprise in its advantage.
    """
    within(1, MANY, num_samples=num_samples)
    within(0.0, 1e3, tilt=tilt, fatigue=fatigue, entropy_weight=entropy_weight)
    above(0, 1, clip_low=clip_low)
    above(0, clip_high=clip_high)
    token_loss = partial(policy_loss, clip_with_gradient(clip_low, clip_high))
    tired = lambda gain, streak: tired_chance(tilt * gain, fatigue * streak)  # noqa: E731
    budget = partial(num_fresh_of, num_samples)
    return Algorithm(
        sample=by_coin(num_samples, min(num_samples, num_samples // 2 + 1), tired, num_ids, uncertainty, budget),
        credit=by_surprise(outcome_of_leaves(), entropy_weight),
        **loss_parts(token_loss, loss),
        optimizer=optimizer,
        num_prompts=num_prompts,
        start=start,
        space=space,
    )


def tired_chance(tilted: float, tired: float) -> float:
    """Return the probability of a fork."""
    return min(1.0, max(0.0, 1 - 0.5 / (1 - tired) + tilted)) if tired < 1 else 0.0


def num_fresh_of(num: int, entropies: Sequence[float]) -> int:
    """Return the number of fresh episodes, by the entropies of a first episode's turns; half of them without any."""
    first, later = entropies[:1], entropies[1:]
    lead = sum(first) - sum(later) / len(later) if later else 0.0
    return min(num, int(num / (1 + math.exp(min(100.0, -lead / 2)))) + 1)


def by_surprise(credit: Credit, weight: float, eps: float = 1e-6) -> Credit:
    """Multiply each token's advantage by 1 + weight * z(-log p), z over the sampled tokens of its task."""

    def weigh(rows: Rows) -> Credited:
        credited = credit(rows)
        surprises: dict[int, list[float]] = defaultdict(list)
        for group, logp in zip(rows.group, rows.logp, strict=True):
            surprises[group] += [-log_prob for log_prob in logp]
        z = {group: iter(standardise("sample", eps)(values)) for group, values in surprises.items()}
        factors = [
            [1 + weight * next(z[group]) for _ in logp] for group, logp in zip(rows.group, rows.logp, strict=True)
        ]
        return replace(credited, advantage=PerToken(list(map(multiply, credited.advantage.values, factors))))

    return weigh


def multiply(advantage: float | Sequence[float], factors: Sequence[float]) -> list[float]:
    """Multiply a row's advantage, or that of each token, by factors of tokens."""
    values = advantage if isinstance(advantage, Sequence) else [advantage] * len(factors)
    return [value * factor for value, factor in zip(values, factors, strict=True)]


def clip_with_gradient(low: float, high: float) -> Surrogate:
    """Clip a ratio to 1 - low and 1 + high, where the upper bound keeps the gradient of (1 + high) r / sg(r)."""

    def surrogate(tokens: Tokens) -> tuple[Tensor, Mapping[str, Tensor]]:
        ratio = (tokens.now["logp"] - tokens.old["logp"]).exp()
        upper = (1 + high) * ratio / ratio.detach()
        plain = -tokens.advantage * ratio
        clipped = -tokens.advantage * ratio.clamp(min=1 - low).where(ratio <= 1 + high, upper)
        return plain.maximum(clipped), {"ratio/clipped": (clipped > plain).float()}

    return surrogate
