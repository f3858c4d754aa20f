"""Dependencies between a batch's segments (see batch.py), and the number of tokens that training needs of each."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import torch

from rlx.learner.batch import Batch
from rlx.model.families import Packing

Segments = list[int]
"""Indices of segments in a batch."""

Reach = dict[int, int]
"""Number of tokens of each segment that go through the model."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Forest:
    """One value per segment."""

    parent: Sequence[int]
    joint: Sequence[int]
    trained: Sequence[int]
    """Tokens up to the last trained one; 0 without a trained token."""
    packing: Packing = "forest"
    """Layout of micro-batches. In `rows` every segment is a root, whose tokens begin with those of its context."""


def forest_of(batch: Batch, packing: Packing = "forest") -> Forest:
    """Return the dependencies between the batch's segments."""
    last_S = batch.token_start_S[1:] - 1
    trained_S = batch.position_M[last_S.clamp(min=0)] + 1 - batch.start_S[:-1]
    if packing == "rows":
        trained_S = trained_S + batch.context_S
    num = len(trained_S)
    return Forest(
        parent=batch.parent_S.tolist() if packing == "forest" else [-1] * num,
        joint=batch.joint_S.tolist() if packing == "forest" else [0] * num,
        trained=(trained_S * (batch.token_start_S.diff() > 0)).tolist(),
        packing=packing,
    )


def reach(forest: Forest, segments: Iterable[int]) -> Reach:
    """Return the tokens needed to train these segments. Each needs its tokens up to the last trained one; each ancestor
    needs its tokens up to the branch."""
    needed_tokens: Reach = {}
    for s in segments:
        needed = forest.trained[s]
        while s >= 0 and needed > needed_tokens.get(s, 0):
            needed_tokens[s] = needed
            s, needed = forest.parent[s], forest.joint[s]
    return needed_tokens


def num_reached(forest: Forest, segments: Iterable[int]) -> int:
    """Count the tokens that go through the model to train these segments together."""
    return num_computed(reach(forest, segments), forest.packing)


def num_computed(reached: Reach, packing: Packing) -> int:
    """Count the tokens that go through the model; rows are padded to the longest."""
    return len(reached) * max(reached.values(), default=0) if packing == "rows" else sum(reached.values())


def contexts_first(reached: Reach, segments: Segments) -> Segments:
    """Order segments: context first, then the trained ones."""
    return [*sorted(set(reached) - set(segments)), *segments]


def depth_first(batch: Batch, reached: Reach) -> Segments:
    """Order segments depth first: every segment before its children, the child with the latest branch first. So a
    token's readers form one contiguous run up to its last reader, without others between."""
    order = torch.tensor(list(reached))
    parent, joint = (dict(zip(reached, column[order].tolist())) for column in (batch.parent_S, batch.joint_S))
    following: dict[int, Segments] = defaultdict(list)
    for s in sorted(reached, key=lambda s: (joint[s], -s)):
        following[parent[s]].append(s)
    ordered, stack = [], following[-1]
    while stack:
        ordered.append(stack.pop())
        stack.extend(following[ordered[-1]])
    return ordered
