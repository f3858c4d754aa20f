"""GiGPO: whole episodes beside each other, and turns that answered equal observations beside each other.

    A(t) = z(R; group) + step_weight * z(G_t; turns of the group with equal observations),  G_t = sum of gamma^k r_(t+k)
    loss = - mean over tokens of min(r A, clip(r, 1 - clip_low, 1 + clip_high) A)

`episode_stats` says over what the first mean and deviation are: the group's `trajectories` (the paper), or its `steps`,
so that long episodes weigh more (as released). A turn whose observation nobody else met has z = 0, and so has an
episode alone in its group (there its raw score). An observation is the environment's last answer without the history,
so different pasts may share one; a first turn answers the environment's opening. Observations are equal if their texts
are; the release may also group by similarity. It takes .1 off the return after an invalid turn, which is the
environment's business here, and it copies rows to fill a batch, which nothing here needs.

Source: "Group-in-Group Policy Optimization for LLM Agent Training" (arXiv:2505.10978) and its code. Against CARL: no
forks; siblings are found where episodes met the same observation, and their returns are not averaged into values.
"""

from __future__ import annotations

from typing import Literal

from rlx.algo.credit import (
    Compare,
    Scale,
    centre,
    check_discounts,
    compare_members,
    per_row,
    returns_to_go,
    standardise,
)
from rlx.algo.credit import worth as credits_of
from rlx.algo.losses import PLAIN, ClipHigh, ClipLow, PolicyLoss, clipped_loss, loss_parts
from rlx.algo.parts import Algorithm, Beginning, Credit, Credited, Optimizer, Space
from rlx.algo.rows import Rows
from rlx.algo.samplers import NumSamples, independent
from rlx.base.limits import at_least, within

EpisodeStats = Literal["trajectories", "steps"]
"""Members of a group in the mean and deviation of its returns: each episode once, or once for each of its turns."""


def gigpo(
    *,
    optimizer: Optimizer,
    num_prompts: int = 16,
    num_samples: NumSamples = 8,
    gamma: float = 0.95,
    step_weight: float = 1.0,
    scale: Scale = "std",
    episode_stats: EpisodeStats = "trajectories",
    clip_low: ClipLow = 0.2,
    clip_high: ClipHigh = 0.2,
    loss: PolicyLoss = PLAIN,
    start: Beginning = "any",
    space: Space = "any",
) -> Algorithm:
    """`num_samples` independent episodes a task, measured as wholes and by turns.

    Args:
        gamma: Discount of a turn's return-to-go.
        step_weight: Weight of the comparison of turns, beside that of episodes.
        scale: Scale of both advantages: none, or std (divide by the sample standard deviation).
        episode_stats: Members of a group in the mean and deviation of returns: trajectories (the paper), or steps (as
            released), so that long episodes weigh more.
    """
    at_least(2, num_samples=num_samples)
    token_loss = clipped_loss(clip_low, clip_high)
    return Algorithm(
        sample=independent(num_samples),
        credit=group_in_group(gamma, step_weight, scale, episode_stats),
        **loss_parts(token_loss, loss),
        optimizer=optimizer,
        num_prompts=num_prompts,
        start=start,
        space=space,
    )


def group_in_group(gamma: float, step_weight: float, scale: Scale, stats: EpisodeStats, eps: float = 1e-6) -> Credit:
    """Sum the credit of the episode and that of the turn."""
    check_discounts(gamma=gamma)
    within(0.0, 1e6, step_weight=step_weight)
    compare = compare_by(scale, eps)

    def credit(rows: Rows) -> Credited:
        episode = episode_part(rows, stats, compare)
        step = among_equals(rows, returns_to_go(rows, gamma), compare)
        return per_row(
            [episode_credit + step_weight * part for episode_credit, part in zip(episode, step, strict=True)]
        )

    return credit


def compare_by(scale: Scale, eps: float) -> Compare:
    """Return what centres values, and with `std` divides them by their sample deviation."""
    return standardise("sample", eps) if scale == "std" else centre


def episode_part(rows: Rows, stats: EpisodeStats, compare: Compare) -> list[float]:
    """Return each row's episode beside its group."""
    members = rows.trajectory if stats == "trajectories" else range(len(rows.turn))
    return list(compare_members(credits_of(rows, None), rows.group, members, compare).advantage.values)


def among_equals(rows: Rows, values: list[float], compare: Compare) -> list[float]:
    """Return each row's value beside those of the rows with its observation."""
    return list(compare_members(values, rows.observation, range(len(values)), compare).advantage.values)
