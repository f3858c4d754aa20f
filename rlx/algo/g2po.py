"""G2PO: states are equal observations; a turn is worth the value of the state after it, and its gain in value.

    V(o)  = mean over the visits of o in the group of gamma^(T - t) R,  T turns, t of them before; R at an end
    C1(t) = z(V(next) - invalid_penalty [turn invalid]; turns of the group with this observation)
    C2(t) = z(V(next) - V(o); turns of the group)
    A(t)  = z(R; group) + step_weight * (C1 + C2),   z(x) = (x - mean) / (sample std + eps)
    loss  = - mean over tokens of min(r A, clip(r, 1 - clip_low, 1 + clip_high) A)

gamma discounts the last turn too. `terminal` says what an end is worth in V: the return of a success, and else nothing
(`success`, the paper), or the return if it is `full_reward` exactly (`full`, as released, where a partial reward is
lost). `episode_stats` and observations are GiGPO's (rlx/algo/gigpo.py).

Source: "G2PO" (arXiv:2606.22995) and its code, whose gamma is fixed and whose full reward is 10. Against CARL: no
forks; siblings are turns that answered equal observations, and the gain is normalised.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from itertools import pairwise
from typing import Literal

from rlx.algo.credit import Scale, by_trajectory, check_discounts, compare_members, per_row
from rlx.algo.credit import worth as credits_of
from rlx.algo.gigpo import EpisodeStats, among_equals, compare_by, episode_part
from rlx.algo.losses import PLAIN, ClipHigh, ClipLow, PolicyLoss, clipped_loss, loss_parts
from rlx.algo.parts import Algorithm, Beginning, Credit, Credited, Optimizer, Space
from rlx.algo.rows import Rows
from rlx.algo.samplers import NumSamples, independent
from rlx.base.limits import at_least, within

Terminal = Literal["success", "full"]
"""Ends that are worth their return: successes, or those with the full reward."""


def g2po(
    *,
    optimizer: Optimizer,
    num_prompts: int = 16,
    num_samples: NumSamples = 8,
    gamma: float = 0.95,
    step_weight: float = 1.0,
    invalid_penalty: float = 0.1,
    scale: Scale = "std",
    episode_stats: EpisodeStats = "trajectories",
    terminal: Terminal = "success",
    full_reward: float = 1.0,
    clip_low: ClipLow = 0.2,
    clip_high: ClipHigh = 0.2,
    loss: PolicyLoss = PLAIN,
    start: Beginning = "any",
    space: Space = "any",
) -> Algorithm:
    """`num_samples` independent episodes a task, joined where they met equal observations.

    Args:
        gamma: Discount of a turn in the values of observations, the last turn included.
        step_weight: Weight of the credit of turns, beside that of episodes.
        invalid_penalty: Loss of value after an invalid turn.
        scale: Scale of advantages: none, or std (divide by the sample standard deviation).
        episode_stats: Members of a group in the mean and deviation of returns: trajectories, or steps, so that long
            episodes weigh more.
        terminal: Ends whose value is their return: success (the paper), or full (as released: those with exactly
            full_reward).
        full_reward: Reward that counts as full with terminal=full.
    """
    at_least(2, num_samples=num_samples)
    check_discounts(gamma=gamma)
    within(0.0, 1e6, step_weight=step_weight, invalid_penalty=invalid_penalty)
    token_loss = clipped_loss(clip_low, clip_high)
    full = full_reward if terminal == "full" else None
    return Algorithm(
        sample=independent(num_samples),
        credit=graph_values(gamma, step_weight, invalid_penalty, scale, episode_stats, full),
        **loss_parts(token_loss, loss),
        optimizer=optimizer,
        num_prompts=num_prompts,
        start=start,
        space=space,
    )


def graph_values(
    gamma: float,
    step_weight: float,
    invalid_penalty: float,
    scale: Scale,
    stats: EpisodeStats,
    full: float | None,
    eps: float = 1e-6,
) -> Credit:
    """Add to the episode's credit that of the state after a turn and of its gain; `full` is the one end that counts."""
    compare = compare_by(scale, eps)

    def credit(rows: Rows) -> Credited:
        ends = [
            value if (won if full is None else value == full) else 0.0
            for value, won in zip(credits_of(rows, None), rows.success, strict=True)
        ]
        before, after = state_values(rows, ends, gamma)
        penalised = [v - invalid_penalty * wrong for v, wrong in zip(after, rows.invalid, strict=True)]
        gains = [v - u for v, u in zip(after, before, strict=True)]
        gained = compare_members(gains, rows.group, range(len(gains)), compare).advantage.values
        parts = zip(episode_part(rows, stats, compare), among_equals(rows, penalised, compare), gained, strict=True)
        return per_row([episode_credit + step_weight * (state + float(gain)) for episode_credit, state, gain in parts])

    return credit


def state_values(rows: Rows, ends: Sequence[float], gamma: float) -> tuple[list[float], list[float]]:
    """Return the value of the observation before each row, and of the one after it, or of the end."""
    visits: dict[int, list[float]] = defaultdict(list)
    for episode in by_trajectory(rows):
        for left, row in enumerate(reversed(episode), 1):
            visits[rows.observation[row]].append(gamma**left * ends[row])
    value = {observation: sum(values) / len(values) for observation, values in visits.items()}
    before = [value[observation] for observation in rows.observation]
    after = list(ends)
    for episode in by_trajectory(rows):
        for row, following in pairwise(episode):
            after[row] = before[following]
    return before, after
