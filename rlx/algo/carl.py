"""CARL: a tree of episodes that is forked where the policy is least sure, and trained where edges have siblings.

    h(s) = mean over the turns a sampled in s of -1/T sum over t of log pi(a_t);   fork the state with the largest h / n
    A(u -> v) = E[R(v)] - E[R(u)],  E[R(u)] = mean over the children v of E[R(v)]
    loss = - mean over tokens of min(r A, clip(r, 1 - clip_low, 1 + clip_high) A)

over the edges whose state has more than one. Source: "CARL: Critical Action Focused Reinforcement Learning for
Multi-Step Agent" (arXiv:2512.04949); its code is not published. arXiv:2605.27788 is another method of that short name.
Its Algorithm 1 says "smallest h / n" and comments "least confident"; only the largest agrees with its text. Its N forks
come on top of the N0 fresh episodes: only so do its Tables 2 and 3 follow. Where to fork depends on turns sampled
there, so values are unbiased only up to that choice. Against GRPO: the sampler and the credit.

Rows of its Table 3: `carl_outcome` credits an edge with z(R) of every leaf below it, one copy for each (mean and
number; see rlx/algo/tree_grpo.py), `carl_random` forks random states, `carl_all` trains all edges with N - N0 forks.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import replace
from typing import Literal

from rlx.algo.backup import Forest, beside, credit_edges, forest_of, groups_of, leaf_means, leaf_returns, num_copies
from rlx.algo.credit import dropping_equal, standardise
from rlx.algo.losses import PLAIN, ClipHigh, ClipLow, PolicyLoss, clipped_loss, loss_parts
from rlx.algo.parts import Algorithm, Beginning, Credit, Credited, Optimizer, Space
from rlx.algo.rows import Rows
from rlx.algo.tree import ForkOrder, Name, Update, progressive, states_of, tree_difference, without_gainless

Reward = Literal["action", "outcome"]
"""Worth of an edge: its gain in expected reward, or the outcome of every episode that it is in."""


def carl(
    *,
    optimizer: Optimizer,
    num_prompts: int = 16,
    num_fresh: int = 8,
    num_forks: int = 16,
    fork_order: ForkOrder = "largest",
    num_live: int = 4,
    update: Update = "critical",
    reward: Reward = "action",
    merge: bool = False,
    clip_low: ClipLow = 0.2,
    clip_high: ClipHigh = 0.2,
    loss: PolicyLoss = PLAIN,
    start: Beginning = "any",
    space: Space = "any",
) -> Algorithm:
    """`num_fresh` (N0) episodes a task from its start, and `num_forks` (N) from states in them.

    Args:
        num_fresh: Fresh episodes a task (the paper's N0); 1 is CARL-Lite.
        num_forks: Forks a task, beside the fresh episodes (the paper's N).
        fork_order: State to fork next: largest or smallest uncertainty per count (the paper's text means largest, its
            box says smallest), or random.
        num_live: Forks of a task under way at once. The paper has 1; more keep the engine busy, and a fork is chosen
            without the results of the others.
        update: Turns to train: critical (those with siblings), or all (one without siblings has the advantage of the
            turn before it).
        reward: Worth of a turn: action (its gain in expected reward), or outcome (the normalised reward of each episode
            that it is in).
        merge: Treat equal contexts of a task as one state, for the choice of forks and for credit. The state has one
            count, and equal turns have equal values there. The paper has a state for each turn.
    """
    token_loss = clipped_loss(clip_low, clip_high)
    return Algorithm(
        sample=progressive(num_fresh, num_forks, fork_order, num_live, merge),
        credit=tree_difference(update, merge) if reward == "action" else tree_outcome(update, merge),
        **loss_parts(token_loss, loss),
        optimizer=optimizer,
        num_prompts=num_prompts,
        start=start,
        space=space,
    )


def tree_outcome(update: Update, merge: bool = False, eps: float = 1e-6) -> Credit:
    """Credit each edge with z(R) of the leaves below it, once for each; others are left out as in `tree_difference`.

    With `merge`, an edge has all leaves below the merged state after it. So turns that say the same in one state are
    worth the same.
    """

    def credit(rows: Rows) -> Credited:
        forest = forest_of(rows)
        leaves = beside(leaf_returns(forest), groups_of(forest), standardise("sample", eps))
        siblings = num_siblings(forest, merge)
        is_trained = [update == "all" or num > 1 for num in siblings]
        copies = [num * trained for num, trained in zip(num_copies(forest), is_trained, strict=True)]
        below = leaves_of_states(forest) if merge else forest.below
        credited = credit_edges(forest, leaf_means(replace(forest, below=below), leaves), copies)
        return without_gainless(credited) if merge and update == "critical" else credited

    return dropping_equal(credit)


def num_siblings(forest: Forest, merge: bool) -> list[int]:
    """Return the number of edges with a leaf below them in the state of each edge; 0 of one without a leaf."""
    states = states_of(forest.rows, merge)
    names = [
        (states[edge.row], edge.first) if merge else (forest.rows.group[edge.row], edge.parent) for edge in forest.edges
    ]
    num = Counter(name for name, below in zip(names, forest.below, strict=True) if below)
    return [num[name] if below else 0 for name, below in zip(names, forest.below, strict=True)]


def leaves_of_states(forest: Forest) -> tuple[tuple[int, ...], ...]:
    """Return the leaves below the state of equal texts that each edge leads to; of a last edge its own."""
    states = states_of(forest.rows, merge=True)
    passing: dict[Name, set[int]] = defaultdict(set)
    for edge, below in zip(forest.edges, forest.below, strict=True):
        passing[states[edge.row]] |= {*below}
    after = {parent: states[row] for row, parent in enumerate(forest.rows.parent) if parent >= 0}
    return tuple(
        tuple(sorted(passing[after[edge.row]])) if edge.row in after else below
        for edge, below in zip(forest.edges, forest.below, strict=True)
    )
