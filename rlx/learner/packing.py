"""Which sequences go through the model together, and how they lie side by side without padding.

A micro-batch is a set of sequences with each of their prefixes once. Linear layers see one row of T tokens; attention
alone gathers them into rectangles (see attention.py).

Legend: T tokens of a micro-batch, g its prefixes, s its sequences, p the longest prefix, l the longest own part, m its
trained tokens; capital letters as in batch.py.
"""

# ruff: noqa: N815 (fields carry shape suffixes)
from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, fields
from itertools import groupby, pairwise
from typing import Any

import torch
from torch import Tensor

from rlx.algo.parts import Totals, Unit
from rlx.learner.batch import Batch

SPREAD = 1.3
"""How many times as long as its shortest sequence a rectangle may be: attention pays for the longest, squared."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rectangle:
    """Sequences of like length, for one call of attention."""

    own_sl: Tensor
    keys_sk: Tensor
    """A sequence's keys: its prefix, then its own; k = p + l."""
    bias: Tensor
    """0 where an own token may look, minus infinity elsewhere: s (or 1, if all prefixes are alike) x 1 x l x k."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """Where attention finds its rectangles among the T packed tokens; entries beyond a length repeat the last one."""

    prefix_gp: Tensor
    rectangles: tuple[Rectangle, ...]
    restore_T: Tensor
    """Where each packed token's output lies among the outputs of all rectangles."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Packed:
    """One micro-batch, ready for the model."""

    input_ids_1T: Tensor
    position_ids_1T: Tensor
    layout: Layout
    predict_m: Tensor
    """Where among T stands the token before each trained one, whose hidden state predicts it."""
    target_m: Tensor
    token_m: Tensor
    """Which of the batch's M each one is."""


Sequences = list[int]
"""Indices of sequences of a batch."""


def units(batch: Batch, unit: Unit) -> list[tuple[int, Sequences]]:
    """The batch's indivisible parts, each with its group, in order, without sequences that nothing is learned from."""
    group_of = dict(zip(batch.trajectory_R.tolist(), batch.group_R.tolist(), strict=True))
    count_S = batch.token_start_S.diff()
    if unit == "pair":
        if batch.advantage_M is None:
            raise ValueError("units: pairs are known by their advantages; credit has not been assigned")
        credited = torch.zeros(len(batch.prefix_S), dtype=torch.bool)
        sequence_M = torch.arange(len(batch.prefix_S)).repeat_interleave(count_S)
        credited[sequence_M[batch.advantage_M != 0]] = True
        count_S = count_S * credited
    alive = [(t, s) for s, (t, count) in enumerate(zip(batch.trajectory_S.tolist(), count_S.tolist())) if count]
    keys = {t: group_of[t] if unit == "pair" else t for t, _ in alive}
    return [
        (group_of[members[0][0]], [s for _, s in members])
        for members in (list(m) for _, m in groupby(alive, key=lambda pair: keys[pair[0]]))
    ]


def count(batch: Batch, parts: Iterable[Sequences]) -> Totals:
    """What these parts hold, for the loss to divide by."""
    chosen_s = torch.tensor([s for part in parts for s in part])
    token_start = batch.token_start_S
    row_m = batch.row_M[ragged(token_start[chosen_s], token_start.diff()[chosen_s])]
    row_r = row_m.unique()
    return Totals(
        num_tokens=len(row_m),
        num_rows=len(row_r),
        num_trajectories=len(batch.trajectory_R[row_r].unique()),
        num_groups=len(batch.group_R[row_r].unique()),
    )


def minibatches(parts: Sequence[tuple[int, Sequences]], num: int) -> list[list[tuple[int, Sequences]]]:
    """Share whole groups out, in order, over `num` optimizer steps; fewer if there are fewer groups."""
    groups = [list(members) for _, members in groupby(parts, key=lambda part: part[0])]
    num = min(num, len(groups))
    cuts = [len(groups) * i // num for i in range(num + 1)]
    return [[part for group in groups[low:high] for part in group] for low, high in pairwise(cuts)]


def micro_batches(batch: Batch, parts: Sequence[tuple[int, Sequences]], budget: int) -> Iterator[Sequences]:
    """Fill micro-batches of at most `budget` tokens, in order, with whole groups where they fit, so that a prefix is
    rarely computed twice. A part larger than the budget goes alone."""
    prefix_S, prefix_length, length = (
        x.tolist() for x in (batch.prefix_S, batch.prefix_start_G.diff(), batch.start_S.diff())
    )

    def cost(sequences: Sequences, shared: set[int]) -> int:
        new = {prefix_S[s] for s in sequences} - shared
        return sum(length[s] for s in sequences) + sum(prefix_length[p] for p in new)

    current: Sequences = []
    used, shared = 0, set[int]()
    for block in blocks(parts, lambda sequences: cost(sequences, set()) <= budget):
        added = cost(block, shared)
        if current and used + added > budget:
            yield current
            current, used, shared = [], 0, set()
            added = cost(block, shared)
        current, used, shared = current + block, used + added, shared | {prefix_S[s] for s in block}
    if current:
        yield current


def blocks(parts: Sequence[tuple[int, Sequences]], fits: Callable[[Sequences], bool]) -> Iterator[Sequences]:
    """Each group in one piece if it fits, else its parts."""
    for _, members in groupby(parts, key=lambda part: part[0]):
        pieces = [sequences for _, sequences in members]
        whole = [s for piece in pieces for s in piece]
        yield from [whole] if fits(whole) else pieces


def ragged(start: Tensor, length: Tensor) -> Tensor:
    """start[0], start[0]+1, ... (length[0] of them), start[1], ..."""
    before = length.cumsum(0) - length
    return torch.arange(int(length.sum())) + (start - before).repeat_interleave(length)


def rectangle(start: Tensor, length: Tensor) -> Tensor:
    """One row of consecutive indices each, as long as the longest; beyond its length a row repeats its last index."""
    steps = torch.arange(int(length.max()))
    return start[:, None] + steps.minimum(length[:, None] - 1)


def pack(batch: Batch, sequences: Sequences) -> Packed:
    """Lay out the sequences' prefixes, then their own tokens."""
    chosen_s = torch.tensor(sequences)
    prefix_g, which_s = batch.prefix_S[chosen_s].unique(return_inverse=True)
    plength_g, length_s = batch.prefix_start_G.diff()[prefix_g], batch.start_S.diff()[chosen_s]
    pstart_g = plength_g.cumsum(0) - plength_g
    start_s = plength_g.sum() + length_s.cumsum(0) - length_s
    ids = (
        batch.prefix_ids_P[ragged(batch.prefix_start_G[prefix_g], plength_g)],
        batch.token_ids_N[ragged(batch.start_S[chosen_s], length_s)],
    )
    positions = (ragged(torch.zeros_like(plength_g), plength_g), ragged(plength_g[which_s], length_s))
    num_s = batch.token_start_S.diff()[chosen_s]
    token_m = ragged(batch.token_start_S[chosen_s], num_s)
    offset_m = batch.position_M[token_m] - batch.start_S[chosen_s].repeat_interleave(num_s)
    last_s = (pstart_g + plength_g - 1)[which_s]
    before_m = start_s.repeat_interleave(num_s) + offset_m - 1
    return Packed(
        input_ids_1T=torch.cat(ids)[None],
        position_ids_1T=torch.cat(positions)[None],
        layout=lay_out(pstart_g, plength_g, which_s, start_s, length_s),
        predict_m=torch.where(offset_m == 0, last_s.repeat_interleave(num_s), before_m),
        target_m=batch.token_ids_N[batch.position_M[token_m]],
        token_m=token_m,
    )


def lay_out(pstart_g: Tensor, plength_g: Tensor, which_s: Tensor, start_s: Tensor, length_s: Tensor) -> Layout:
    prefix_gp = rectangle(pstart_g, plength_g)
    (g, p), first, parts = prefix_gp.shape, prefix_gp.numel(), []
    place_s = torch.empty_like(start_s)
    for chosen in alike(length_s):
        prefix = prefix_gp[which_s[chosen]]
        part = lay_rectangle(prefix, plength_g[which_s[chosen]], rectangle(start_s[chosen], length_s[chosen]))
        place_s[chosen] = first + torch.arange(len(chosen)) * part.own_sl.shape[1]
        first += part.own_sl.numel()
        parts.append(part)
    return Layout(
        prefix_gp=prefix_gp,
        rectangles=tuple(parts),
        restore_T=torch.cat([ragged(torch.arange(g) * p, plength_g), ragged(place_s, length_s)]),
    )


def alike(length_s: Tensor) -> list[Tensor]:
    """Indices by length, cut where one is more than `SPREAD` times as long as the shortest before it."""
    order = length_s.argsort(stable=True)
    lengths, cuts = length_s[order].tolist(), [0]
    for index, length in enumerate(lengths):
        if length > SPREAD * lengths[cuts[-1]]:
            cuts.append(index)
    return [order[low:high] for low, high in pairwise([*cuts, len(lengths)])]


def lay_rectangle(prefix_sp: Tensor, plength_s: Tensor, own_sl: Tensor) -> Rectangle:
    (s, longest), p = own_sl.shape, prefix_sp.shape[1]
    num_biases = 1 if bool((plength_s == p).all()) else s
    seen_sp = torch.arange(p) < plength_s[:, None]
    causal_ll = torch.ones(longest, longest, dtype=torch.bool).tril()
    allowed = torch.cat(
        [seen_sp[:num_biases, None].expand(-1, longest, -1), causal_ll[None].expand(num_biases, -1, -1)], -1
    )
    bias = torch.zeros(allowed.shape).masked_fill_(~allowed, float("-inf"))
    return Rectangle(own_sl=own_sl, keys_sk=torch.cat([prefix_sp, own_sl], 1), bias=bias[:, None])


def moved(packed: Packed, device: torch.device) -> Packed:
    """The same on another device."""

    def move(value: Any) -> Any:
        if isinstance(value, Tensor):
            return value.to(device)
        if isinstance(value, tuple):
            return tuple(move(part) for part in value)
        return type(value)(**{f.name: move(getattr(value, f.name)) for f in fields(value)})

    return move(packed)
