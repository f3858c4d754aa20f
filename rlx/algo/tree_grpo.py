"""Tree-GRPO: episodes that share beginnings, compared with all of their task and with those of their tree.

    A(leaf) = z(R; leaves of the task) + z(R; leaves of its tree),   z(R) = (R - mean) / (std + eps)
    loss    = - mean over tokens of min(r A, clip(r, 1 - clip_low, 1 + clip_high) A), every leaf a whole episode

`num_trees` episodes begin trees. In each of `num_rounds` rounds, `num_forks` states of each tree are drawn, uniformly
and with replacement, from its root and the states after its inner turns. `num_leaves` random episodes of a tree are
kept. A shared turn counts once for each leaf below it: its advantage is the mean over these leaves, its weight the
number of leaves. On the policy that sampled, the gradient equals that of the release, which trains a copy per leaf;
beyond, the clip sees the mean.

Source: "Tree Search for LLM Agent Reinforcement Learning" (arXiv:2509.21240); choices follow its code, the paper's body
is not at hand. Differences from the code: a leaf alone in a tree has z = 0 (there its raw score); no dual clip. With
`loss.normalisation=sequence` the mean is over forks and not over whole episodes.
Against CARL: places are random, an episode's outcome is credited to all of its turns, and these are trained for every
leaf below them.
"""

from __future__ import annotations

from typing import Literal

from rlx.algo.backup import add_leaves, beside, credit_edges, forest_of, groups_of, leaf_means, leaf_returns, num_copies
from rlx.algo.backup import trees_of as trees
from rlx.algo.credit import standardise
from rlx.algo.forks import in_rounds, keep_some, uniform_states
from rlx.algo.losses import PLAIN, ClipHigh, ClipLow, PolicyLoss, Ratio, clipped_loss, loss_parts
from rlx.algo.parts import Algorithm, Beginning, Credit, Credited, Optimizer, Space
from rlx.algo.rows import Rows
from rlx.base.limits import MANY, within

Levels = Literal["both", "tree", "task"]
"""Leaves that a leaf is compared with: leaves of its task, leaves of its tree, or the sum of both comparisons."""


def tree_grpo(
    *,
    optimizer: Optimizer,
    num_prompts: int = 16,
    num_trees: int = 2,
    num_rounds: int = 1,
    num_forks: int = 2,
    num_leaves: int | None = 3,
    levels: Levels = "both",
    ratio: Ratio = "token",
    clip_low: ClipLow = 0.2,
    clip_high: ClipHigh = 0.2,
    loss: PolicyLoss = PLAIN,
    start: Beginning = "any",
    space: Space = "any",
) -> Algorithm:
    """M = `num_trees`, L = `num_rounds`, N = `num_forks`, K = `num_leaves` of the paper.

    Args:
        num_trees: Fresh episodes a task, each of which begins a tree (the paper's M).
        num_rounds: Rounds of forks (the paper's L).
        num_forks: Forks of a tree in each round (the paper's N), from random states of it.
        num_leaves: Number of episodes kept per tree (the paper's K), drawn from 1 + num_rounds * num_forks; null: all.
        levels: Episodes that an episode is compared with: those of its task, those of its tree, or the sum of both.
        ratio: Ratio that is clipped: of a token, or of a turn (the geometric mean over its tokens).
    """
    within(1, MANY, num_trees=num_trees)
    within(0, MANY, num_forks=num_forks)
    token_loss = clipped_loss(clip_low, clip_high, ratio)
    total = num_trees * num_rounds * num_forks
    return Algorithm(
        sample=in_rounds(num_trees, num_rounds, total, uniform_states(num_forks), finish=keep_some(num_leaves)),
        credit=levels_of_leaves(levels),
        **loss_parts(token_loss, loss),
        optimizer=optimizer,
        num_prompts=num_prompts,
        start=start,
        space=space,
    )


def levels_of_leaves(levels: Levels, eps: float = 1e-6) -> Credit:
    """Credit each leaf beside others, and each edge with the mean of the leaves below it."""
    compare = standardise("sample", eps)

    def credit(rows: Rows) -> Credited:
        forest = forest_of(rows)
        returns = leaf_returns(forest)
        task, tree = (beside(returns, cells, compare) for cells in (groups_of(forest), trees(rows)))
        leaves = {"both": add_leaves(task, tree), "tree": tree, "task": task}[levels]
        return credit_edges(forest, leaf_means(forest, leaves), num_copies(forest))

    return credit
