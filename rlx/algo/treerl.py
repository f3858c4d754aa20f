"""TreeRL: forks at the most surprising tokens; a step's advantage is the gain in value plus the value itself.

    R'(leaf) = R - mean of the task's other leaves            V(v) = mean of R' over the leaves below; V(root) = 0
    A(u, v)  = [V(v) - V(u)] + [V(v) - m]                     m = 0, or the mean of V over the task's sampled tokens
    loss     = - mean over tokens of min(r A, clip(r, 1 - clip_low, 1 + clip_high) A), one copy for each kept leaf below

Each of `num_trees` episodes begins a tree. In a round, each tree is forked at the `num_forks` tokens with the largest
-log p, `num_branches` times each. Where V(v) = V(u), the first term is the one before it. `num_leaves` leaves are kept,
a successful one first; the others count in R' and V alone. `scaling` divides by sqrt(kept leaves below): the advantage
(the paper), or V before the differences (as released). `offset` says which m: root (the paper) or tokens (as released).

Source: "TreeRL: LLM Reinforcement Learning with On-Policy Tree Search" (arXiv:2506.11902) and its code. The code does
not fork after the words "answer" and "conclusion", and sets overlong leaves to -1; neither is here. Against CARL: forks
inside a turn, leaves and not children are averaged, and the value itself is added to the gain.
"""

from __future__ import annotations

import math
from collections import defaultdict
from typing import Literal

from rlx.algo import backup
from rlx.algo.credit import centre
from rlx.algo.forks import in_rounds, keep_a_success, least_likely_tokens
from rlx.algo.losses import PLAIN, ClipHigh, ClipLow, PolicyLoss, clipped_loss, loss_parts
from rlx.algo.parts import Algorithm, Beginning, Credit, Credited, Optimizer, Space
from rlx.algo.rows import Rows
from rlx.base.limits import MANY, within

Scaling = Literal["none", "advantage", "value"]
Offset = Literal["root", "tokens"]


def treerl(
    *,
    optimizer: Optimizer,
    num_prompts: int = 16,
    num_trees: int = 6,
    num_rounds: int = 1,
    num_forks: int = 2,
    num_branches: int = 2,
    num_leaves: int | None = 16,
    scaling: Scaling = "advantage",
    offset: Offset = "root",
    clip_low: ClipLow = 0.2,
    clip_high: ClipHigh = 0.26,
    loss: PolicyLoss = PLAIN,
    start: Beginning = "any",
    space: Space = "any",
) -> Algorithm:
    """M = `num_trees`, L = `num_rounds`, N = `num_forks`, T = `num_branches` of the paper.

    Args:
        num_trees: Fresh episodes a task, each of which begins a tree (the paper's M).
        num_rounds: Rounds of forks (the paper's L).
        num_forks: Tokens of a tree that are forked in each round (the paper's N).
        num_branches: Forks at each of these tokens (the paper's T).
        num_leaves: Episodes of a task that are trained, a successful one and random others; null trains all.
        scaling: Division by the square root of the number of trained episodes below: none, of the advantage (the
            paper), or of the value (as released).
        offset: Value taken off the state after a step: that of the root, which is 0 (the paper), or the mean over all
            sampled tokens (as released).
    """
    within(1, MANY, num_trees=num_trees, num_branches=num_branches)
    within(0, MANY, num_forks=num_forks)
    total = num_trees * num_rounds * num_forks * num_branches
    choose, finish = least_likely_tokens(num_forks, num_branches), keep_a_success(num_leaves)
    token_loss = clipped_loss(clip_low, clip_high)
    return Algorithm(
        sample=in_rounds(
            num_trees, num_rounds, total, choose, fork_turns=lambda turns: total * turns / 2, finish=finish
        ),
        credit=gain_and_value(scaling, offset),
        **loss_parts(token_loss, loss),
        optimizer=optimizer,
        num_prompts=num_prompts,
        start=start,
        space=space,
    )


def gain_and_value(scaling: Scaling, offset: Offset) -> Credit:
    """Add the gain of each edge to its value, over the leaves below."""

    def credit(rows: Rows) -> Credited:
        full_forest, forest = backup.forest_of(rows, with_spare=True), backup.forest_of(rows)
        leaves = backup.beside(backup.leaf_returns(full_forest), backup.groups_of(full_forest), without_itself)
        num_kept = backup.num_copies(forest)
        divisor = [math.sqrt(max(1.0, num)) for num in num_kept]
        value = backup.leaf_means(full_forest, leaves)
        if scaling == "value":
            value = [v / d for v, d in zip(value, divisor, strict=True)]
        nothing = dict.fromkeys(rows.group, 0.0)
        gain = pass_on(forest, backup.minus(value, backup.parent_values(full_forest, value, nothing)))
        mean = token_means(full_forest, value) if offset == "tokens" else nothing
        worth = [g + v - mean[rows.group[e.row]] for g, v, e in zip(gain, value, full_forest.edges, strict=True)]
        if scaling == "advantage":
            worth = [advantage / d for advantage, d in zip(worth, divisor, strict=True)]
        return backup.credit_edges(forest, worth, num_kept)

    return credit


def without_itself(returns: list[float]) -> list[float]:
    """Less the mean of the others; 0 for one alone."""
    num = len(returns)
    return [num / (num - 1) * centred_return if centred_return else 0.0 for centred_return in centre(returns)]


def pass_on(forest: backup.Forest, gain: list[float]) -> list[float]:
    """Give an edge whose gain is 0 the gain of the agent's edge before it."""
    gains = list(gain)
    for number, edge in enumerate(forest.edges):
        before = backup.sampled_before(forest, edge)
        if abs(gains[number]) < 1e-8 and before >= 0:
            gains[number] = gains[before]
    return gains


def token_means(forest: backup.Forest, value: list[float]) -> dict[int, float]:
    """Return the mean of the edges' values over the sampled tokens of each group."""
    total, num = defaultdict[int, float](float), defaultdict[int, int](int)
    for edge, edge_value in zip(forest.edges, value, strict=True):
        total[forest.rows.group[edge.row]] += edge_value * edge.num_tokens
        num[forest.rows.group[edge.row]] += edge.num_tokens
    return {group: total[group] / max(1, num[group]) for group in num}
