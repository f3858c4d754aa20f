"""How a batch's segments hang together (see batch.py), and how much of them some of them need."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import torch

from rlx.learner.batch import Batch

Segments = list[int]
"""Numbers of segments of a batch."""

Reach = dict[int, int]
"""How many tokens of each segment go through the model."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Forest:
    """A value per segment."""

    parent: Sequence[int]
    joint: Sequence[int]
    trained: Sequence[int]
    """Tokens up to the last trained one, 0 where nothing is."""


def forest_of(batch: Batch) -> Forest:
    last_S = batch.token_start_S[1:] - 1
    trained_S = batch.position_M[last_S.clamp(min=0)] + 1 - batch.start_S[:-1]
    return Forest(
        parent=batch.parent_S.tolist(),
        joint=batch.joint_S.tolist(),
        trained=(trained_S * (batch.token_start_S.diff() > 0)).tolist(),
    )


def reach(forest: Forest, segments: Iterable[int]) -> Reach:
    """What training these takes: each up to its last trained token, and of what they follow as much as they see."""
    found: Reach = {}
    for s in segments:
        needed = forest.trained[s]
        while s >= 0 and needed > found.get(s, 0):
            found[s] = needed
            s, needed = forest.parent[s], forest.joint[s]
    return found


def num_reached(forest: Forest, segments: Iterable[int]) -> int:
    """Tokens that go through the model to train these together."""
    return sum(reach(forest, segments).values())


def contexts_first(reached: Reach, segments: Segments) -> Segments:
    """What is only seen, then what is trained."""
    return [*sorted(set(reached) - set(segments)), *segments]


def depth_first(batch: Batch, reached: Reach) -> Segments:
    """Every segment before those that follow it, and of these the one that leaves it last before the others: so
    whoever sees a token lies between it and the last one that does, and nobody else."""
    order = torch.tensor(list(reached))
    parent, joint = (dict(zip(reached, column[order].tolist())) for column in (batch.parent_S, batch.joint_S))
    following: dict[int, Segments] = defaultdict(list)
    for s in sorted(reached, key=lambda s: (joint[s], -s)):
        following[parent[s]].append(s)
    found, stack = [], following[-1]
    while stack:
        found.append(stack.pop())
        stack.extend(following[found[-1]])
    return found
