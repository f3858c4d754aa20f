"""Who computes what: a step's parts shared out over the ranks by their tokens, the same number of passes on each.

ZeRO's ranks meet in every forward and backward pass, so a rank with fewer micro-batches than another repeats its
smallest piece of work as filler, with weight zero.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import groupby

from rlx.learner.batch import Batch
from rlx.learner.packing import Sequences, micro_batches

Part = tuple[int, Sequences]
"""An indivisible part of a batch, with its group; see packing.units."""

Cost = Callable[[Sequences], int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """One micro-batch of one rank."""

    sequences: Sequences
    is_filler: bool = False
    """Computed only to keep step with the other ranks; it counts for nothing."""


def work_of(batch: Batch, parts: Sequence[Part], budget: int, size: int) -> list[list[Work]]:
    """Each rank's micro-batches of at most `budget` tokens; all lists are of the same length."""
    plans = [
        [Work(sequences=sequences) for sequences in micro_batches(batch, share, budget)]
        for share in shares(batch, parts, size)
    ]
    longest = max(map(len, plans))
    filler = Work(sequences=smallest(batch, parts), is_filler=True) if parts else None
    return [plan + [filler] * (longest - len(plan)) for plan in plans if filler is not None]


def smallest(batch: Batch, parts: Sequence[Part]) -> Sequences:
    """The cheapest part."""
    cost = cost_in(batch)
    return min((sequences for _, sequences in parts), key=cost)


def shares(batch: Batch, parts: Sequence[Part], size: int) -> list[list[Part]]:
    """The parts, in order, of each rank. Groups stay whole, to compute their prompt once, unless that makes the largest
    share larger."""
    if size == 1:
        return [list(parts)]
    cost = cost_in(batch)
    whole = [list(members) for _, members in groupby(range(len(parts)), key=lambda index: parts[index][0])]
    single = [[index] for index in range(len(parts))]
    return min((balance(cost, parts, pieces, size) for pieces in (whole, single)), key=lambda plan: largest(cost, plan))


def balance(cost: Cost, parts: Sequence[Part], pieces: Sequence[Sequence[int]], size: int) -> list[list[Part]]:
    """The most expensive piece first, each to the rank that has the least."""
    held: list[list[int]] = [[] for _ in range(size)]
    load = [0] * size

    def sequences_of(piece: Sequence[int]) -> Sequences:
        return [s for index in piece for s in parts[index][1]]

    for piece in sorted(pieces, key=lambda piece: -cost(sequences_of(piece))):
        rank = load.index(min(load))
        held[rank].extend(piece)
        load[rank] = cost(sequences_of(held[rank]))
    return [[parts[index] for index in sorted(mine)] for mine in held]


def largest(cost: Cost, plan: Sequence[Sequence[Part]]) -> int:
    return max(cost([s for _, sequences in share for s in sequences]) for share in plan)


def cost_in(batch: Batch) -> Cost:
    """Tokens that go through the model for some sequences: their own, and each of their prefixes once."""
    prefix_S, prefix_length, length = (
        x.tolist() for x in (batch.prefix_S, batch.prefix_start_G.diff(), batch.start_S.diff())
    )

    def cost(sequences: Sequences) -> int:
        return sum(length[s] for s in sequences) + sum(prefix_length[p] for p in {prefix_S[s] for s in sequences})

    return cost
