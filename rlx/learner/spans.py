"""Attention over a CPU's spans, with memory that is linear in the number of tokens.

Legend: T packed tokens.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from rlx.learner.layout import Index, Span

flash = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu
flash_backward = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu_backward
"""The functions that scaled_dot_product_attention calls on a CPU; these also give the logarithm of each query's sum."""


class Spans(torch.autograd.Function):
    """Attention span by span, each a call without a bias.

    A token's answers from two spans join by their sums of exponentials, L = log(e^L1 + e^L2):

        out = e^(L1 - L) out1 + e^(L2 - L) out2

    and with the joint `out` and L each span's backward is that of the whole (Dao et al. 2022, arXiv:2205.14135,
    appendix B.2). Kept for it are queries, keys, values, `out` and L: memory is linear in T. A head's sink s is a span
    whose sum is s and whose answer is 0, so its gradient is the sum of -e^(s - L) (gradient . out) over the tokens.
    """

    @staticmethod
    def forward(
        ctx: Any, q: Tensor, k: Tensor, v: Tensor, spans: tuple[Span, ...], scaling: float, sinks: Tensor | None
    ) -> Tensor:
        out = torch.zeros_like(q)
        sums = torch.full(q.shape[:3], -torch.inf, dtype=torch.promote_types(q.dtype, torch.float32))
        if sinks is not None:
            sums.copy_(sinks[:, None].expand(q.shape[1:3]))
        for queries, keys, causal in calls(spans, q, k):
            join(out, sums, queries, *flash(q[queries], k[keys], v[keys], 0.0, causal, scale=scaling))
        ctx.save_for_backward(q, k, v, out, sums, sinks)
        ctx.spans, ctx.scaling = spans, scaling
        return out

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        q, k, v, out, sums, sinks = ctx.saved_tensors
        grad_q, grad_k, grad_v = (torch.zeros_like(x) for x in (q, k, v))
        for queries, keys, causal in calls(ctx.spans, q, k):
            tensors = grad[queries], q[queries], k[keys], v[keys], out[queries], sums[queries]
            gradients = flash_backward(*tensors, 0.0, causal, scale=ctx.scaling)
            for total, index, more in zip((grad_q, grad_k, grad_v), (queries, keys, keys), gradients, strict=True):
                total[index] += more
        return grad_q, grad_k, grad_v, None, None, sink_gradient(sinks, grad, out, sums)


def sink_gradient(sinks: Tensor | None, grad: Tensor, out: Tensor, sums: Tensor) -> Tensor | None:
    """Return the gradient of each head's sink; see `Spans`."""
    if sinks is None:
        return None
    share = (sinks[:, None].to(sums.dtype) - sums).exp()
    return -(share * (grad * out).sum(-1)).sum((0, 2)).to(sinks.dtype)


Where = tuple[slice, slice, Index]
"""Indices into 1 x heads x T."""


def calls(spans: tuple[Span, ...], q: Tensor, k: Tensor) -> Iterator[tuple[Where, Where, bool]]:
    """Queries, keys, and whether these are causal: one call a span, or as many as query heads share a key head, so that
    no key is repeated."""
    num, full_slice = q.shape[1] // k.shape[1], slice(None)
    for span in spans:
        for first in range(num):
            yield (full_slice, slice(first, None, num), span.queries), (full_slice, full_slice, span.keys), span.causal


def join(out: Tensor, sums: Tensor, queries: Where, more: Tensor, more_sums: Tensor) -> None:
    """Add what some queries found in more keys."""
    before, joint = sums[queries], torch.logaddexp(sums[queries], more_sums)
    out[queries] = out[queries] * (before - joint).exp()[..., None] + more * (more_sums - joint).exp()[..., None]
    sums[queries] = joint
