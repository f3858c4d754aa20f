"""Attention over a packed micro-batch, in which a group's shared prompt stands once.

Prompt tokens attend causally to their prompt; a sequence's own tokens attend to [prompt ; own], causally. All are plain
rectangles, of sequences of like length, gathered from the packed tokens, so any model that takes its attention from
transformers' AttentionInterface can run on it; a key of the prompt gathered for four sequences gets the gradient of all
four. Own tokens need no padding mask as queries: rows beyond a length are never read.

Legend: T packed tokens, h query heads, d head size; g, p, s, l, k as in packing.py.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention
from transformers import AttentionInterface

from rlx.learner.packing import Layout

PACKED = "rlx_packed"
"""The name under which transformers finds it; it is never written to a checkpoint."""


def packed_attention(
    module: torch.nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    *,
    layout: Layout,
    scaling: float,
    dropout: float = 0.0,
    sliding_window: int | None = None,
    **_: Any,
) -> tuple[Tensor, None]:
    """transformers' signature: 1 x heads x T x d in, 1 x T x heads x d out."""
    longest = max(part.keys_sk.shape[1] for part in layout.rectangles)
    if sliding_window is not None and longest > sliding_window:
        raise ValueError(f"packed attention: {longest} tokens exceed the sliding window {sliding_window}")
    num_heads, size = query.shape[1], query.shape[3]
    q, k, v = (x[0].transpose(0, 1).flatten(1) for x in (query, key, value))

    def gather(tokens: Tensor, index: Tensor) -> Tensor:
        """Rows x heads x length x d; key heads are repeated for the query heads that share them."""
        rows = tokens.index_select(0, index.flatten()).view(*index.shape, -1, size).transpose(1, 2)
        return rows if rows.shape[1] == num_heads else rows.repeat_interleave(num_heads // rows.shape[1], dim=1)

    def attend(asking: Tensor, seen: Tensor, bias: Tensor | None) -> Tensor:
        """Rows x length x heads x d, flat; without a bias, causal."""
        out = scaled_dot_product_attention(
            gather(q, asking),
            gather(k, seen),
            gather(v, seen),
            attn_mask=None if bias is None else bias.to(q.dtype),
            is_causal=bias is None,
            scale=scaling,
            dropout_p=dropout,
        )
        return out.transpose(1, 2).reshape(-1, num_heads * size)

    prompts = attend(layout.prefix_gp, layout.prefix_gp, None)
    out = torch.cat([prompts, *(attend(part.own_sl, part.keys_sk, part.bias) for part in layout.rectangles)])
    return out.index_select(0, layout.restore_T).view(1, -1, num_heads, size), None


AttentionInterface.register(PACKED, packed_attention)
