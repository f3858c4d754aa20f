"""AT2PO: turns taken again where they surprised most, values backed up by surprise, a ratio for each turn.

    z(leaf) = (R - mean) / (population std + eps) over the task's leaves
    V(v)    = z at a leaf, else the mean over the edges that follow, weighted by softmax of their -log p per token
    A       = V(v)  (value)  |  V(v) - V(u)  (parent)  |  V(v) - V(root)  (root)  |  the sum of these two  (both)
    loss    = - mean over tokens of min(s A, clip(s, 1 - clip_low, 1 + clip_high) A),  s = (turn's ratio)^(1/tokens)

In each round the `num_forks` turns with the largest -log p per token, less `penalty` for each sibling, are taken again
from the state before them. An episode's last turn is never among them; the root is, with 0. An edge counts once for
each leaf below it. The `leaf` advantage is z(leaf) of every leaf below, averaged.

Source: "AT2PO: Agentic Turn-based Policy Optimization via Tree Search" (arXiv:2601.04767); defaults are its code's, the
paper's body is not at hand. With too few leaves, after errors, the code copies the last one (`shortfall=copies`). Its
loss averages tokens of an episode before episodes; `loss.normalisation=sequence` does so by forks. Against CARL: the
turn's surprise counts, not its state's; a value is the advantage, without a baseline at the state; all is trained.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

from rlx.algo import backup
from rlx.algo.credit import standardise
from rlx.algo.forks import in_rounds, surest_last
from rlx.algo.losses import PLAIN, ClipHigh, ClipLow, PolicyLoss, Ratio, clipped_loss, loss_parts
from rlx.algo.parts import Algorithm, Beginning, Credit, Credited, Optimizer, Space
from rlx.algo.rows import Rows
from rlx.base.limits import MANY, within

Backup = Literal["child_softmax", "child_mean", "leaf_mean"]
"""Value of a state: a mean over edges, weighted by the softmax of their surprise or not, or over leaves."""
Advantage = Literal["value", "parent", "root", "both", "leaf"]
Shortfall = Literal["none", "copies"]
"""Too few leaves: as they are, or filled up with copies of the last one."""


def at2po(
    *,
    optimizer: Optimizer,
    num_prompts: int = 16,
    num_fresh: int = 10,
    num_rounds: int = 2,
    num_forks: int = 6,
    penalty: float = 0.05,
    values: Backup = "child_softmax",
    advantage: Advantage = "value",
    shortfall: Shortfall = "none",
    ratio: Ratio = "turn",
    clip_low: ClipLow = 3e-3,
    clip_high: ClipHigh = 4e-3,
    loss: PolicyLoss = PLAIN,
    start: Beginning = "any",
    space: Space = "any",
) -> Algorithm:
    """`num_fresh` episodes a task, and `num_forks` turns taken again in each of `num_rounds` rounds.

    Args:
        num_fresh: Fresh episodes a task.
        num_rounds: Rounds of forks.
        num_forks: Turns that are taken again in each round.
        penalty: Loss of a turn's score (its -log p per token) for each sibling that it has.
        values: Value of a state: child_softmax (mean over its turns, by softmax of their -log p per token), child_mean
            or leaf_mean.
        advantage: Advantage of a turn: value (of the state after it), parent (that less the state's before it), root
            (less the root's), both (their sum), leaf.
        shortfall: Too few episodes, after errors: none (as they are), or copies (of the last one, as released).
        ratio: Ratio that is clipped: of a token, or of a turn (the geometric mean over its tokens).
    """
    within(1, MANY, num_fresh=num_fresh)
    within(0, MANY, num_forks=num_forks, penalty=penalty)
    total = num_rounds * num_forks
    token_loss = clipped_loss(clip_low, clip_high, ratio)
    return Algorithm(
        sample=in_rounds(
            num_fresh,
            num_rounds,
            total,
            surest_last(num_forks, penalty),
            fork_turns=lambda turns: total * ((turns + 3) / 2 - 1 / turns),
        ),
        credit=backed_up_values(values, advantage, num_fresh + total if shortfall == "copies" else 0),
        **loss_parts(token_loss, loss),
        optimizer=optimizer,
        num_prompts=num_prompts,
        start=start,
        space=space,
    )


def backed_up_values(values: Backup, advantage: Advantage, num_leaves: int = 0, eps: float = 1e-6) -> Credit:
    """Back up the leaves' z; groups with fewer than `num_leaves` are filled up with copies of the last leaf."""

    def credit(rows: Rows) -> Credited:
        forest = backup.forest_of(rows)
        copies, compare = backup.copies_of_last(forest, num_leaves), standardise("population", eps)
        z = backup.beside(backup.leaf_returns(forest), backup.groups_of(forest), compare, copies)
        weigh = weights_of(forest, values, copies)
        value = backup.back_up(forest, z, weigh)
        root = backup.root_values(forest, value, weigh)
        gain = backup.minus(value, backup.parent_values(forest, value, root))
        lead = backup.minus(value, [root[rows.group[edge.row]] for edge in forest.edges])
        advantages = {
            "value": value,
            "parent": gain,
            "root": lead,
            "both": [*map(sum, zip(gain, lead, strict=True))],
            "leaf": backup.leaf_means(forest, z, copies),
        }[advantage]
        done = backup.credit_edges(forest, advantages, backup.num_copies(forest, copies))
        return backup.with_duplicates(done, copies) if num_leaves else done

    return credit


def weights_of(forest: backup.Forest, values: Backup, copies: Mapping[int, int]) -> backup.Weigh:
    """Return the weights of sibling edges in a value; a leaf with copies stands for several edges."""
    surprise, leaves = backup.edge_surprises(forest), backup.num_copies(forest, copies)
    times = {edge: copies.get(trajectory, 1) for trajectory, edge in forest.leaf.items()}

    def weigh(edges: Sequence[int]) -> list[float]:
        if values == "leaf_mean":
            return [leaves[edge] for edge in edges]
        weights = backup.softmax([surprise[edge] if values == "child_softmax" else 0.0 for edge in edges])
        return [weight * times.get(edge, 1) for weight, edge in zip(weights, edges, strict=True)]

    return weigh
