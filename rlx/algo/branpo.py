"""BranPO: the last turns of an episode are taken again until a branch ends otherwise, and both are compared.

    base    turns before the branching: A = z(mean or max of the branches' R; episodes of the task with a base)
    branch  turns after it:             A = z(R; all branches of the task), at most 0 for the worse of a pair
    loss    = - mean over tokens of min(r A, clip(r, 1 - clip_low, 1 + clip_high) A), each turn once

A share p of the `num_samples` episodes is right: R >= `threshold`. The first rule that holds says how many turns are
taken again, and how often:

    1/2 < p < 1, right, with more turns than the right have on average   2 turns, 5 times
    p = 1                                                                1 turn, once
    p < 1/2, wrong                                                       1, 2, then 3 turns, twice each
    p <= 3/4, or wrong                                                   1, then 2 turns, twice each

The first branch on the other side of the threshold is kept; if 1/2 < p < 1 so is a right one with another number of
turns. Others are not trained, and `batch/tokens` counts them. An episode without a branch is cut two turns before its
end. Source: BranPO (arXiv:2602.03719, version 2) and its code, which takes the mean of branches where a comment says
max. Only branches that differ enter the baselines, which is a selection. Its cap of importance weights, its masks and
its penalties are other keys or the environment's. A branch that takes all turns again shares none with its episode, so
neither has a base. Against CARL: forks near the end, chosen by outcomes.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from math import inf
from typing import Literal

from rlx.algo.backup import beside, figures_of_rows, trees_of
from rlx.algo.branches import until_contrast
from rlx.algo.credit import by_trajectory, standardise, trajectory_returns
from rlx.algo.losses import PLAIN, ClipHigh, ClipLow, PolicyLoss, clipped_loss, loss_parts
from rlx.algo.parts import Algorithm, Beginning, Credit, Credited, Optimizer, PerRow, Space
from rlx.algo.rows import Rows
from rlx.base.limits import at_least, within

Base = Literal["mean", "max"]
"""Reward of a base: the mean of its branches' or the best."""


def branpo(
    *,
    optimizer: Optimizer,
    num_prompts: int = 16,
    num_samples: int = 4,
    threshold: float = 0.8,
    base: Base = "mean",
    clip_low: ClipLow = 0.2,
    clip_high: ClipHigh = 0.28,
    loss: PolicyLoss = PLAIN,
    start: Beginning = "any",
    space: Space = "any",
) -> Algorithm:
    """`num_samples` fresh episodes a task, each with at most one branch that is kept.

    Args:
        num_samples: Fresh episodes a task, each with at most one branch that is trained.
        threshold: Smallest return of a right episode.
        base: Reward of the turns before a branch: mean or max of the branches' rewards.
    """
    at_least(2, num_samples=num_samples)
    within(-1e6, 1e6, threshold=threshold)
    token_loss = clipped_loss(clip_low, clip_high)
    return Algorithm(
        sample=until_contrast(num_samples, threshold),
        credit=base_and_branches(base),
        **loss_parts(token_loss, loss),
        optimizer=optimizer,
        num_prompts=num_prompts,
        start=start,
        space=space,
    )


def base_and_branches(base: Base, eps: float = 1e-6) -> Credit:
    """Credit the turns before a branching beside other bases, and those after it beside all branches of the task."""
    compare = standardise("sample", eps)

    def credit(rows: Rows) -> Credited:
        pairs = branches_of(rows)
        reward = {branch.trajectory: branch.reward for pair in pairs.values() for branch in pair}
        group = {branch.trajectory: rows.group[branch.rows[0]] for pair in pairs.values() for branch in pair}
        split = {root: split_turn(pair) for root, pair in pairs.items()}
        bases = {root: reward_of(base, pair) for root, pair in pairs.items() if split[root] > 0}
        base_advantages, branch_advantages = (beside(values, group, compare) for values in (bases, reward))
        advantage, keep = [0.0] * len(rows.turn), [False] * len(rows.turn)
        for root, pair in pairs.items():
            for branch in pair:
                limit = 0.0 if branch is worse_of(pair) else inf
                for row in branch.rows:
                    is_base = rows.turn[row] < split[root]
                    advantage[row] = (
                        base_advantages[root] if is_base else min(limit, branch_advantages[branch.trajectory])
                    )
                    keep[row] = True
        return Credited(advantage=PerRow(advantage), keep=PerRow(keep), metrics=figures_of_rows(rows, keep))

    return credit


@dataclass(frozen=True, slots=True)
class Branch:
    """An episode from its start, or a branch of one."""

    trajectory: int
    rows: Sequence[int]
    first: int
    """First turn that it sampled itself."""
    num_turns: int
    reward: float
    is_fork: bool


def branches_of(rows: Rows) -> dict[int, list[Branch]]:
    """Return each fresh episode with its kept branches, by the number of the episode."""
    returns, trees = trajectory_returns(rows), trees_of(rows)
    branches: dict[int, list[Branch]] = defaultdict(list)
    for episode in by_trajectory(rows):
        if rows.spare and rows.spare[episode[0]]:
            continue
        number = rows.trajectory[episode[0]]
        first, num_turns = rows.turn[episode[0]], rows.turn[episode[-1]] + 1
        branches[trees[number]].append(
            Branch(number, episode, first, num_turns, returns[number], is_fork=trees[number] != number)
        )
    return branches


def split_turn(pair: Sequence[Branch]) -> int:
    """Return the first turn after the base: where a branch left, or two turns before the end."""
    return min([branch.first for branch in pair if branch.is_fork], default=max(0, pair[0].num_turns - 2))


def reward_of(base: Base, pair: Sequence[Branch]) -> float:
    rewards = [branch.reward for branch in pair]
    return max(rewards) if base == "max" else sum(rewards) / len(rewards)


def worse_of(pair: Sequence[Branch]) -> Branch | None:
    """Return the branch with the lower reward, or with more turns; None where nothing contrasts."""
    worst = min(pair, key=lambda branch: (branch.reward, -branch.num_turns))
    same = all((branch.reward, branch.num_turns) == (worst.reward, worst.num_turns) for branch in pair)
    return None if same else worst
