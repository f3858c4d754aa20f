"""Attention over a packed micro-batch, in which what several segments follow stands once.

Any model that takes its attention from transformers' AttentionInterface can run on it. Who sees whom is the layout's
(layout.py); a key that several segments see gets the gradient of all of them.

Legend: T packed tokens, h query heads, d head size; s, l, k as in layout.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache, partial
from typing import Any

import torch
from torch import Tensor
from torch.nn.attention.flex_attention import BlockMask, flex_attention
from torch.nn.functional import scaled_dot_product_attention
from transformers import AttentionInterface

from rlx.learner.layout import BLOCK, Index, Layout, Rectangle, Rectangles, Sight, Span

PACKED = "rlx_packed"
"""The name under which transformers finds it; it is never written to a checkpoint."""

RECOMPILES = 64
"""Kernels that FlexAttention may be compiled to, by what differs between micro-batches."""

KERNEL = {"FORCE_USE_FLEX_ATTENTION": True}
"""Options of FlexAttention. Below 128 tokens it would choose its kernel for decoding, which cannot be built for heads
of size 128 that share keys in groups of eight."""

flash = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu
flash_backward = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu_backward
"""The functions that scaled_dot_product_attention calls on a CPU; these also give the logarithm of each query's sum."""


Attend = Callable[[Tensor, Tensor, Tensor, float, float], Tensor]
"""Queries, keys, values, scaling and dropout: 1 x heads x T x d in, 1 x T x heads x d out."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Attention:
    """The part of a micro-batch that all layers need, made once a pass."""

    attend: Attend
    longest: int
    """The most that a token sees, with itself."""


def attention_over(layout: Layout) -> Attention:
    if isinstance(layout.seen, Rectangles):
        biases = [bias_of(part) for part in layout.seen.rectangles]
        return Attention(attend=partial(attend_rectangles, layout.seen, biases), longest=layout.longest)
    if isinstance(layout.seen, Sight):
        return Attention(attend=partial(attend_sight, block_mask(layout.seen)), longest=layout.longest)
    return Attention(attend=partial(attend_spans, layout.seen), longest=layout.longest)


def packed_attention(
    module: torch.nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    *,
    attention: Attention,
    scaling: float,
    dropout: float = 0.0,
    sliding_window: int | None = None,
    **_: Any,
) -> tuple[Tensor, None]:
    """Compute the attention of all packed tokens, with the signature that transformers calls: 1 x heads x T x d in, 1 x
    T x heads x d out."""
    if sliding_window is not None and attention.longest > sliding_window:
        raise ValueError(f"packed attention: {attention.longest} tokens exceed the sliding window {sliding_window}")
    return attention.attend(query, key, value, scaling, dropout), None


def bias_of(part: Rectangle) -> Tensor | None:
    """0 where an own token may look, minus infinity elsewhere: s (or 1, if all contexts are alike) x 1 x l x k. None if
    there is no context: then attention is causal."""
    if not len(part.context_s):
        return None
    longest, context = part.queries_sl.shape[1], part.keys_sk.shape[1] - part.queries_sl.shape[1]
    column_k = torch.arange(context + longest, device=part.context_s.device)
    own_lk = (column_k >= context) & (column_k - context <= column_k[:longest, None])
    seen_s1k = column_k < part.context_s.clamp(max=context)[:, None, None]
    return torch.zeros(1).where(seen_s1k | own_lk, -torch.inf)[:, None]


def attend_rectangles(
    seen: Rectangles,
    biases: Sequence[Tensor | None],
    query: Tensor,
    key: Tensor,
    value: Tensor,
    scaling: float,
    dropout: float,
) -> Tensor:
    """Tokens gathered into rectangles. They need no padding mask as queries: rows beyond a length are never read."""
    num_heads, size = query.shape[1], query.shape[3]
    q, k, v = (x[0].transpose(0, 1).flatten(1) for x in (query, key, value))

    def gather(tokens: Tensor, index: Tensor) -> Tensor:
        """Rows x heads x length x d; key heads are repeated for the query heads that share them."""
        rows = tokens.index_select(0, index.flatten()).view(*index.shape, -1, size).transpose(1, 2)
        return rows if rows.shape[1] == num_heads else rows.repeat_interleave(num_heads // rows.shape[1], dim=1)

    def attend(part: Rectangle, bias: Tensor | None) -> Tensor:
        """Rows x length x heads x d, flat; without a bias, causal."""
        out = scaled_dot_product_attention(
            gather(q, part.queries_sl),
            gather(k, part.keys_sk),
            gather(v, part.keys_sk),
            attn_mask=None if bias is None else bias.to(q.dtype),
            is_causal=bias is None,
            scale=scaling,
            dropout_p=dropout,
        )
        return out.transpose(1, 2).reshape(-1, num_heads * size)

    out = torch.cat([attend(part, bias) for part, bias in zip(seen.rectangles, biases, strict=True)])
    return out.index_select(0, seen.restore_T).view(1, -1, num_heads, size)


def attend_spans(
    spans: tuple[Span, ...], query: Tensor, key: Tensor, value: Tensor, scaling: float, dropout: float
) -> Tensor:
    refuse_dropout(dropout)
    return Spans.apply(query.to(value.dtype), key.to(value.dtype), value, spans, scaling).transpose(1, 2)


@cache
def flex(device: str) -> Callable[..., Tensor]:
    """FlexAttention: its kernels on a GPU; elsewhere, for tests, forward alone and with all scores at once."""
    if device != "cuda":
        return flex_attention
    bound_recompiles()
    found: Any = torch.compile(flex_attention, fullgraph=True)
    return found


def bound_recompiles() -> None:
    """Let shapes differ more than torch's eight times, and stop where even that does not do: beyond its limit torch
    would run the unfused form, whose scores are heads x T x T numbers."""
    torch._dynamo.config.recompile_limit = max(RECOMPILES, torch._dynamo.config.recompile_limit)
    torch._dynamo.config.fail_on_recompile_limit_hit = True


def attend_sight(mask: BlockMask, query: Tensor, key: Tensor, value: Tensor, scaling: float, dropout: float) -> Tensor:
    """No bias, no copies, no repeated key heads."""
    refuse_dropout(dropout)
    given = query.to(value.dtype), key.to(value.dtype), value
    shared = query.shape[1] != key.shape[1]
    attend = partial(flex(query.device.type), block_mask=mask, scale=scaling, kernel_options=KERNEL)
    return attend(*given, enable_gqa=shared).transpose(1, 2)


def block_mask(seen: Sight) -> BlockMask:
    num, until_T = len(seen.until_T), seen.until_T

    def sees(batch: Tensor, head: Tensor, query: Tensor, key: Tensor) -> Tensor:
        return (key <= query) & (query < until_T[key])

    (num_partly, partly), (num_wholly, wholly) = key_blocks(seen.partly_qk), key_blocks(seen.wholly_qk)
    return BlockMask.from_kv_blocks(
        num_partly, partly, num_wholly, wholly, BLOCK_SIZE=BLOCK, mask_mod=sees, seq_lengths=(num, num)
    )


def key_blocks(seen_qk: Tensor) -> tuple[Tensor, Tensor]:
    """Count the blocks of keys that each block of queries sees, and list them first."""
    num_q, key_qk = seen_qk.sum(-1), seen_qk.int().argsort(descending=True, stable=True)
    return num_q.int()[None, None], key_qk.int()[None, None]


def refuse_dropout(dropout: float) -> None:
    if dropout:
        raise ValueError(f"packed attention: the model drops {dropout} of its attention; make it 0 in its config.json")


class Spans(torch.autograd.Function):
    """Attention span by span, each a call without a bias.

    A token's answers from two spans join by their sums of exponentials, L = log(e^L1 + e^L2):

        out = e^(L1 - L) out1 + e^(L2 - L) out2

    and with the joint `out` and L each span's backward is that of the whole (Dao et al. 2022, arXiv:2205.14135,
    appendix B.2). Kept for it are queries, keys, values, `out` and L: memory is linear in T.
    """

    @staticmethod
    def forward(ctx: Any, q: Tensor, k: Tensor, v: Tensor, spans: tuple[Span, ...], scaling: float) -> Tensor:
        out = torch.zeros_like(q)
        sums = torch.full(q.shape[:3], -torch.inf, dtype=torch.promote_types(q.dtype, torch.float32))
        for at, keys, causal in calls(spans, q, k):
            join(out, sums, at, *flash(q[at], k[keys], v[keys], 0.0, causal, scale=scaling))
        ctx.save_for_backward(q, k, v, out, sums)
        ctx.spans, ctx.scaling = spans, scaling
        return out

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        q, k, v, out, sums = ctx.saved_tensors
        grad_q, grad_k, grad_v = (torch.zeros_like(x) for x in (q, k, v))
        for at, keys, causal in calls(ctx.spans, q, k):
            given = grad[at], q[at], k[keys], v[keys], out[at], sums[at]
            found = flash_backward(*given, 0.0, causal, scale=ctx.scaling)
            for total, index, more in zip((grad_q, grad_k, grad_v), (at, keys, keys), found, strict=True):
                total[index] += more
        return grad_q, grad_k, grad_v, None, None


Where = tuple[slice, slice, Index]
"""Indices into 1 x heads x T."""


def calls(spans: tuple[Span, ...], q: Tensor, k: Tensor) -> Iterator[tuple[Where, Where, bool]]:
    """Queries, keys, and whether these are causal: one call a span, or as many as query heads share a key head, so that
    no key is repeated."""
    num, every = q.shape[1] // k.shape[1], slice(None)
    for span in spans:
        for first in range(num):
            yield (every, slice(first, None, num), span.queries), (every, every, span.keys), span.causal


def join(out: Tensor, sums: Tensor, at: Where, more: Tensor, more_sums: Tensor) -> None:
    """Add what some queries found in more keys."""
    before, joint = sums[at], torch.logaddexp(sums[at], more_sums)
    out[at] = out[at] * (before - joint).exp()[..., None] + more * (more_sums - joint).exp()[..., None]
    sums[at] = joint


AttentionInterface.register(PACKED, packed_attention)
