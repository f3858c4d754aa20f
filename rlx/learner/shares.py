"""Distribute work: a step's units are shared out over the ranks by their tokens, and each rank's share goes through
the model in micro-batches, as many on every rank.

A unit is what no micro-batch splits: a trajectory's segments, or a group's. ZeRO's ranks meet in every
forward and backward pass, so a rank with fewer micro-batches than another repeats the smallest unit as filler, with
weight zero.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby, pairwise

import torch

from rlx.algo import parts
from rlx.learner.batch import Batch
from rlx.learner.forest import Forest, Reach, Segments, forest_of, num_computed, num_reached, reach
from rlx.learner.layout import ragged
from rlx.model.families import Packing


@dataclass(frozen=True, slots=True, kw_only=True)
class Unit:
    """Segments that go through together, of one group."""

    group: int
    segments: Segments


@dataclass(frozen=True, slots=True, kw_only=True)
class MicroBatch:
    """Segments that go through the model at once."""

    segments: Segments
    """Segments that are trained."""
    reach: Reach
    """Tokens computed for `segments`: the number of leading tokens of each segment and of each ancestor."""
    packing: Packing = "forest"
    is_filler: bool = False
    """Computed only to keep step with the other ranks; it counts for nothing."""
    recompute: bool = False
    """Layers keep only what they start from, and are computed again for the backward pass."""

    @property
    def num_tokens(self) -> int:
        """Number of tokens that go through the model, padding included."""
        return num_computed(self.reach, self.packing)


def units(batch: Batch, kind: parts.Unit, only: Container[int] | None = None) -> list[Unit]:
    """A batch's units in order, without segments that nothing is learned from; of `only` some trajectories."""
    group_of = dict(zip(batch.trajectory_R.tolist(), batch.group_R.tolist(), strict=True))
    count_S = batch.token_start_S.diff()
    alive = [(t, s) for s, (t, count) in enumerate(zip(batch.trajectory_S.tolist(), count_S.tolist())) if count]
    alive = [(t, s) for t, s in alive if only is None or t in only]
    keys = {t: group_of[t] if kind == "group" else t for t, _ in alive}
    return [
        Unit(group=group_of[members[0][0]], segments=[s for _, s in members])
        for members in (list(m) for _, m in groupby(alive, key=lambda pair: keys[pair[0]]))
    ]


def segments_of(chosen: Iterable[Unit]) -> Segments:
    return [s for unit in chosen for s in unit.segments]


def by_group(chosen: Iterable[Unit]) -> list[list[Unit]]:
    return [list(members) for _, members in groupby(chosen, key=lambda unit: unit.group)]


def count(batch: Batch, chosen: Iterable[Unit]) -> parts.Totals:
    """Return the counts of these units, for the loss to divide by."""
    chosen_s = torch.tensor(segments_of(chosen))
    token_start = batch.token_start_S
    token_m = ragged(token_start[chosen_s], token_start.diff()[chosen_s])
    row_m = batch.row_M[token_m]
    row_r = row_m.unique()
    counted_R = batch.trajectory_R if batch.counts_as_R is None else batch.counts_as_R
    return parts.Totals(
        num_tokens=len(row_m),
        num_rows=len(row_r),
        num_trajectories=len(counted_R[row_r].unique()),
        num_groups=len(batch.group_R[row_r].unique()),
        num_copies=None if batch.multiplicity_M is None else batch.multiplicity_M[token_m].sum().item(),
    )


def minibatches(chosen: Sequence[Unit], num: int) -> list[list[Unit]]:
    """Share whole groups out, in order, over `num` optimizer steps; fewer if there are fewer groups."""
    groups = by_group(chosen)
    num = min(num, len(groups))
    cuts = [len(groups) * i // max(num, 1) for i in range(num + 1)]
    return [[unit for group in groups[low:high] for unit in group] for low, high in pairwise(cuts)]


def shares(
    batch: Batch, chosen: Sequence[Unit], budget: int, size: int, packing: Packing = "forest"
) -> list[list[MicroBatch]]:
    """Return each rank's micro-batches of at most `budget` tokens; all lists are of the same length."""
    if not chosen:
        return [[] for _ in range(size)]
    forest = forest_of(batch, packing)
    rank_shares = [list(micro_batches(forest, share, budget)) for share in balance(forest, chosen, size)]
    most = max(map(len, rank_shares))
    filler = replace(micro_batch(forest, smallest(forest, chosen).segments), is_filler=True)
    return in_step([share + [filler] * (most - len(share)) for share in rank_shares], budget)


def in_step(rank_shares: list[list[MicroBatch]], budget: int) -> list[list[MicroBatch]]:
    """The layers of a unit beyond the budget are computed again, a third more time for far less memory: on every rank,
    as ranks meet in each layer."""
    beyond = [any(rank_batch.num_tokens > budget for rank_batch in step_batches) for step_batches in zip(*rank_shares)]
    return [[replace(rank_batch, recompute=again) for rank_batch, again in zip(share, beyond)] for share in rank_shares]


def smallest(forest: Forest, chosen: Sequence[Unit]) -> Unit:
    """The cheapest unit."""
    return min(chosen, key=lambda unit: num_reached(forest, unit.segments))


def micro_batch(forest: Forest, segments: Segments) -> MicroBatch:
    return MicroBatch(segments=segments, reach=reach(forest, segments), packing=forest.packing)


def micro_batches(forest: Forest, chosen: Sequence[Unit], budget: int) -> Iterator[MicroBatch]:
    """Fill micro-batches of at most `budget` tokens, in order, with whole groups where they fit, so that what they
    share is rarely computed twice. A unit larger than the budget goes alone."""
    current: Segments = []
    reached: Reach = {}
    for segments in segments_that_fit(forest, chosen, budget):
        needed = reach(forest, segments)
        joint = {**reached, **{s: length for s, length in needed.items() if length > reached.get(s, 0)}}
        if current and num_computed(joint, forest.packing) > budget:
            yield MicroBatch(segments=current, reach=reached, packing=forest.packing)
            current, joint = [], needed
        current, reached = current + segments, joint
    if current:
        yield MicroBatch(segments=current, reach=reached, packing=forest.packing)


def segments_that_fit(forest: Forest, chosen: Sequence[Unit], budget: int) -> Iterator[Segments]:
    """Each group's segments if they fit, else its units'. Rows share nothing, so units of like length go together."""
    if forest.packing == "rows":
        yield from sorted((unit.segments for unit in chosen), key=lambda segments: longest(forest, segments))
        return
    for members in by_group(chosen):
        group_segments = segments_of(members)
        fits = num_reached(forest, group_segments) <= budget
        yield from [group_segments] if fits else [unit.segments for unit in members]


def longest(forest: Forest, segments: Segments) -> int:
    return max(forest.trained[s] for s in segments)


def balance(forest: Forest, chosen: Sequence[Unit], size: int) -> list[list[Unit]]:
    """The units, in order, of each rank. Groups stay whole, to compute once what they share, unless that makes the
    largest share larger."""
    if size == 1:
        return [list(chosen)]
    ways = (spread(forest, chosen, bundles, size) for bundles in (by_group(chosen), [[unit] for unit in chosen]))
    return min(ways, key=lambda way: max(num_reached(forest, segments_of(share)) for share in way))


def spread(forest: Forest, chosen: Sequence[Unit], bundles: Sequence[Sequence[Unit]], size: int) -> list[list[Unit]]:
    """The most expensive bundle first, each to the rank that has the least."""
    rank_units: list[list[Unit]] = [[] for _ in range(size)]
    load = [0] * size
    for bundle in sorted(bundles, key=lambda bundle: -num_reached(forest, segments_of(bundle))):
        rank = load.index(min(load))
        rank_units[rank].extend(bundle)
        load[rank] = num_reached(forest, segments_of(rank_units[rank]))
    return [sorted(share, key=lambda unit: unit.segments) for share in rank_units]
