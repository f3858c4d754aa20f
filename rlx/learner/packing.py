"""Layout of a micro-batch: a forest in one row, or rows of one sequence each.

In a forest, segments stand side by side, each once, without padding. Linear layers see one row of tokens; attention
alone receives the visibility of tokens (layout.py). Layers with recurrent state or convolutions would read their
neighbours there. Models that have such layers get rows: every trained segment after a copy of its context, padded on
the right. A token that is trained stands in one row as trained, and in others as context, so log-probs, losses and
gradients are those of the forest.

Legend: B rows (1 in a forest), L their length, T = B L tokens of a micro-batch, m its trained tokens, t its segments
with trained tokens; capital letters as in batch.py.
"""

# ruff: noqa: N815 (fields carry shape suffixes)
from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, is_dataclass
from typing import Any

import torch
from torch import Tensor

from rlx.algo.parts import Totals
from rlx.hardware.ranks import Ranks
from rlx.learner.batch import Batch
from rlx.learner.forest import contexts_first, depth_first
from rlx.learner.layout import Layout, Placement, lay_out, ragged, rectangle
from rlx.learner.shares import MicroBatch, Unit, count, shares
from rlx.model.families import Packing


@dataclass(frozen=True, slots=True, kw_only=True)
class Packed:
    """One micro-batch as input of the model."""

    input_ids_BL: Tensor
    position_ids_BL: Tensor
    layout: Layout
    predict_m: Tensor
    """Index in T of the token before each trained token. Its hidden state predicts the trained token."""
    after_m: Tensor
    """Index in T of each trained token. Its hidden state includes this token."""
    target_m: Tensor
    token_m: Tensor
    """Index into the batch's M for each trained token."""
    token_T: Tensor
    """Index into the batch's N for each packed token."""
    recompute: bool
    """Flag as in MicroBatch."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MiniBatch:
    """Data of one optimizer step."""

    totals: Totals
    shares: list[list[MicroBatch]]
    """Micro-batches of every rank."""
    packed: list[Packed]
    """Packed micro-batches of this rank."""


def prepare(
    batch: Batch, chosen: Sequence[Unit], budget: int, ranks: Ranks, device: str, packing: Packing = "forest"
) -> MiniBatch:
    """Share the units among ranks and pack those of this rank, once for all passes over the batch."""
    rank_shares = shares(batch, chosen, budget, ranks.size, packing)
    packed = [pack(batch, micro_batch, device) for micro_batch in rank_shares[ranks.rank]]
    return MiniBatch(totals=count(batch, chosen), shares=rank_shares, packed=packed)


def pack(batch: Batch, micro_batch: MicroBatch, device: str = "cpu") -> Packed:
    """Pack a micro-batch for attention on this kind of device."""
    return (pack_rows if micro_batch.packing == "rows" else pack_forest)(batch, micro_batch, device)


def pack_rows(batch: Batch, micro_batch: MicroBatch, device: str) -> Packed:
    """Give each segment a row: its context, its own tokens, and copies of the last token as padding."""
    segments_t = torch.tensor(micro_batch.segments)
    length_t = torch.tensor([micro_batch.reach[s] for s in micro_batch.segments])
    num, longest = len(length_t), int(length_t.max())
    token_T = torch.cat([path_tokens(batch, s)[:length] for s, length in zip(micro_batch.segments, length_t.tolist())])
    token_T = token_T[rectangle(length_t.cumsum(0) - length_t, length_t, longest)].flatten()
    num_t = batch.token_start_S.diff()[segments_t]
    token_m = ragged(batch.token_start_S[segments_t], num_t)
    first_t = torch.arange(num) * longest + batch.context_S[segments_t] - batch.start_S[segments_t]
    after_m = batch.position_M[token_m] + first_t.repeat_interleave(num_t)
    placed = Placement(
        parent=[-1] * num,
        joint=[0] * num,
        start=[row * longest for row in range(num)],
        length=[longest] * num,
        context=[0] * num,
    )
    return Packed(
        input_ids_BL=batch.token_ids_N[token_T].view(num, longest),
        position_ids_BL=torch.arange(longest).minimum(length_t[:, None] - 1),
        layout=lay_out(placed, device),
        predict_m=after_m - 1,
        after_m=after_m,
        target_m=batch.target_M[token_m],
        token_m=token_m,
        token_T=token_T,
        recompute=micro_batch.recompute,
    )


def path_tokens(batch: Batch, segment: int) -> Tensor:
    """Return the index in N of each token of a segment's context and of the segment."""
    start, end = batch.start_S[segment : segment + 2].tolist()
    runs = [torch.arange(start, end)]
    while (parent := int(batch.parent_S[segment])) >= 0:
        start = int(batch.start_S[parent])
        runs.append(torch.arange(start, start + int(batch.joint_S[segment])))
        segment = parent
    return torch.cat(runs[::-1])


def pack_forest(batch: Batch, micro_batch: MicroBatch, device: str) -> Packed:
    """Place every segment once, where attention on this kind of device finds its context."""
    on_cpu = device == "cpu"
    order = torch.tensor(
        contexts_first(micro_batch.reach, micro_batch.segments) if on_cpu else depth_first(batch, micro_batch.reach)
    )
    length_s = torch.tensor([micro_batch.reach[s] for s in order.tolist()])
    placed = place(batch, order, length_s)
    start_S = torch.zeros_like(batch.parent_S)
    start_S[order] = torch.tensor(placed.start)
    trained_t = torch.tensor(micro_batch.segments)
    num_t = batch.token_start_S.diff()[trained_t]
    token_m = ragged(batch.token_start_S[trained_t], num_t)
    offset_m = batch.position_M[token_m] - batch.start_S[trained_t].repeat_interleave(num_t)
    follows_t = start_S[batch.parent_S[trained_t]] + batch.joint_S[trained_t] - 1
    before_m = start_S[trained_t].repeat_interleave(num_t) + offset_m - 1
    token_T = ragged(batch.start_S[order], length_s)
    return Packed(
        input_ids_BL=batch.token_ids_N[token_T][None],
        position_ids_BL=ragged(batch.context_S[order], length_s)[None],
        layout=lay_out(placed, device),
        predict_m=torch.where(offset_m == 0, follows_t.repeat_interleave(num_t), before_m),
        after_m=before_m + 1,
        target_m=batch.target_M[token_m],
        token_m=token_m,
        token_T=token_T,
        recompute=micro_batch.recompute,
    )


def place(batch: Batch, order: Tensor, length_s: Tensor) -> Placement:
    """Place the segments one after another, in this order."""
    place_of = {-1: -1, **{s: index for index, s in enumerate(order.tolist())}}
    return Placement(
        parent=[place_of[s] for s in batch.parent_S[order].tolist()],
        joint=batch.joint_S[order].tolist(),
        start=(length_s.cumsum(0) - length_s).tolist(),
        length=length_s.tolist(),
        context=batch.context_S[order].tolist(),
    )


def to_device(packed: Packed, device: torch.device) -> Packed:
    """Move all tensors to another device."""

    def move(value: Any) -> Any:
        if isinstance(value, Tensor):
            return value.to(device)
        if isinstance(value, tuple):
            return tuple(move(part) for part in value)
        if is_dataclass(value) and not isinstance(value, type):
            return type(value)(**{f.name: move(getattr(value, f.name)) for f in fields(value)})
        return value

    return move(packed)
