"""Attention over a packed micro-batch, in which a group's shared prompt stands once.

Prompt tokens attend causally to their prompt; a sequence's own tokens attend to [prompt ; own], causally. Both are
plain rectangles gathered from the packed tokens, so any model that takes its attention from transformers'
AttentionInterface can run on it; a key of the prompt gathered for four sequences gets the gradient of all four. Own
tokens need no padding mask as queries: rows beyond a length are never read.

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
    if sliding_window is not None and layout.keys_sk.shape[1] > sliding_window:
        raise ValueError(
            f"packed attention: {layout.keys_sk.shape[1]} tokens exceed the sliding window {sliding_window}"
        )
    num_heads, size = query.shape[1], query.shape[3]
    q, k, v = (x[0].transpose(0, 1).flatten(1) for x in (query, key, value))

    def gather(tokens: Tensor, index: Tensor) -> Tensor:
        """Rows x heads x length x d; key heads are repeated for the query heads that share them."""
        rows = tokens.index_select(0, index.flatten()).view(*index.shape, -1, size).transpose(1, 2)
        return rows if rows.shape[1] == num_heads else rows.repeat_interleave(num_heads // rows.shape[1], dim=1)

    prefix, own, keys = layout.prefix_gp, layout.own_sl, layout.keys_sk
    prompts = scaled_dot_product_attention(
        gather(q, prefix), gather(k, prefix), gather(v, prefix), is_causal=True, scale=scaling, dropout_p=dropout
    )
    owns = scaled_dot_product_attention(
        gather(q, own),
        gather(k, keys),
        gather(v, keys),
        attn_mask=layout.bias.to(q.dtype),
        scale=scaling,
        dropout_p=dropout,
    )
    out = torch.cat([x.transpose(1, 2).reshape(-1, num_heads * size) for x in (prompts, owns)])
    return out.index_select(0, layout.restore_T).view(1, -1, num_heads, size), None


AttentionInterface.register(PACKED, packed_attention)
