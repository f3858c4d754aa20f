"""Attention over a packed micro-batch, in which what several segments follow stands once.

Any model that takes its attention from transformers' AttentionInterface can run on it. Who sees whom is the layout's
(layout.py); a key that several segments see gets the gradient of all of them.

Legend: T packed tokens, h query heads, d head size; s, l, k as in layout.py.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, partial
from typing import Any

import torch
from torch import Tensor
from torch.nn.attention.flex_attention import AuxRequest, BlockMask, flex_attention
from torch.nn.functional import pad, scaled_dot_product_attention
from transformers import AttentionInterface

from rlx.learner.layout import (
    BLOCK,
    Layout,
    Rectangle,
    Rectangles,
    Sight,
    Span,
    blocks_within,
    cohorts,
    lay_rectangles,
)
from rlx.learner.spans import Spans

PACKED = "rlx_packed"
"""The name under which transformers finds it; it is never written to a checkpoint."""

RECOMPILES = 64
"""Kernels that FlexAttention may be compiled to, by what differs between micro-batches."""

KERNEL = {"FORCE_USE_FLEX_ATTENTION": True}
"""Options of FlexAttention. Below 128 tokens it would choose its kernel for decoding, which cannot be built for heads
of size 128 that share keys in groups of eight."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """Treatment of scores in one layer."""

    scaling: float
    dropout: float = 0.0
    window: int | None = None
    """Number of tokens that a token sees at most, itself included: the last ones of its path."""
    soft_cap: float | None = None
    """c in c * tanh(score / c), before the mask."""
    sinks: Tensor | None = None
    """For each query head, the score of a key without a value that every token sees."""


Attend = Callable[[Tensor, Tensor, Tensor, Rule], Tensor]
"""Queries, keys, values and a rule: 1 x heads x T x d in, 1 x T x heads x d out."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Attention:
    """The part of a micro-batch that all layers need, made once a pass."""

    attend: Attend
    longest: int
    """The most that a token sees, with itself."""


def attention_over(layout: Layout) -> Attention:
    """Prepare attention over a layout. What a window needs is made at the first layer that has it."""
    if isinstance(layout.visibility, Sight):
        masks = cache(partial(block_mask, layout.visibility))
        return Attention(attend=partial(attend_sight, masks), longest=layout.longest)
    if isinstance(layout.visibility, Rectangles):
        return Attention(attend=attend_in(layout.visibility), longest=layout.longest)
    make = cache(lambda: attend_in(lay_rectangles(layout.placed, list(cohorts(layout.placed)))))
    return Attention(attend=partial(attend_spans, layout.visibility, make), longest=layout.longest)


def attend_in(rectangles: Rectangles) -> Attend:
    biases = cache(lambda window: [bias_of(part, window) for part in rectangles.rectangles])
    return partial(attend_rectangles, rectangles, biases)


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
    softcap: float | None = None,
    s_aux: Tensor | None = None,
    **others: Any,
) -> tuple[Tensor, None]:
    """Compute the attention of all packed tokens, with the signature that transformers calls: B x heads x T x d in, B x
    T x heads x d out. Rows are laid out one after another."""
    unknown = [name for name, argument in {**others, "attention_mask": attention_mask}.items() if argument is not None]
    unknown = sorted(set(unknown) - WITHOUT_EFFECT)
    if unknown:
        raise ValueError(
            f"packed attention: {type(module).__name__} gives {', '.join(unknown)}, which rlx does not compute; "
            "choose a model of a type in docs/models.md"
        )
    rule = Rule(
        scaling=scaling,
        dropout=dropout,
        window=None if sliding_window is None or attention.longest <= sliding_window else sliding_window,
        soft_cap=softcap,
        sinks=s_aux,
    )
    rows = query.shape[0]
    q, k, v = (query, key, value) if rows == 1 else (flat_rows(x) for x in (query, key, value))
    out = attention.attend(q, k, v, rule)
    return out.view(rows, -1, *out.shape[2:]), None


WITHOUT_EFFECT = frozenset({"position_ids", "use_cache", "output_router_logits"})
"""Keywords that transformers gives to attention and that change nothing in it: layers have applied them before."""


def flat_rows(x: Tensor) -> Tensor:
    """Lay rows one after another: B x heads x T x d to 1 x heads x (B T) x d."""
    return x.transpose(0, 1).flatten(1, 2)[None]


def bias_of(part: Rectangle, window: int | None) -> Tensor | None:
    """0 where a query may look, minus infinity elsewhere: s (or 1, if all contexts are alike) x 1 x l x k. None if
    there is neither a context nor a window: then attention is causal."""
    if not len(part.context_s) and window is None:
        return None
    longest, context = part.queries_sl.shape[1], part.keys_sk.shape[1] - part.queries_sl.shape[1]
    column_k = torch.arange(context + longest, device=part.queries_sl.device)
    same_segment_lk = (column_k >= context) & (column_k - context <= column_k[:longest, None])
    context_s = part.context_s if len(part.context_s) else column_k.new_zeros(1)
    context_s11 = context_s[:, None, None]
    visible_slk = (column_k < context_s11.clamp(max=context)) | same_segment_lk
    if window is not None:
        position_s1k = torch.where(column_k < context, column_k, column_k - context + context_s11)
        visible_slk = visible_slk & (context_s11 + column_k[:longest, None] - position_s1k < window)
    return torch.zeros(1).where(visible_slk, -torch.inf)[:, None]


def attend_rectangles(
    rectangles: Rectangles,
    biases: Callable[[int | None], Sequence[Tensor | None]],
    query: Tensor,
    key: Tensor,
    value: Tensor,
    rule: Rule,
) -> Tensor:
    """Tokens gathered into rectangles. They need no padding mask as queries: rows beyond a length are never read."""
    num_heads, size = query.shape[1], value.shape[3]
    q, k, v = (x[0].transpose(0, 1).flatten(1) for x in (query, key, value))

    def gather(tokens: Tensor, heads: int, index: Tensor) -> Tensor:
        """Rows x heads x length x d; key heads are repeated for the query heads that share them."""
        rows = tokens.index_select(0, index.flatten()).view(*index.shape, heads, -1).transpose(1, 2)
        return rows if rows.shape[1] == num_heads else rows.repeat_interleave(num_heads // rows.shape[1], dim=1)

    def attend(part: Rectangle, bias: Tensor | None) -> Tensor:
        """Rows x length x heads x d, flat; without a bias, causal."""
        keys, values = (gather(x, key.shape[1], part.keys_sk) for x in (k, v))
        inputs = gather(q, num_heads, part.queries_sl), keys, values
        if rule.soft_cap is None and rule.sinks is None:
            out = scaled_dot_product_attention(
                *inputs,
                attn_mask=None if bias is None else bias.to(q.dtype),
                is_causal=bias is None,
                scale=rule.scaling,
                dropout_p=rule.dropout,
            )
        else:
            out = attend_openly(*inputs, causal_bias(inputs[0]) if bias is None else bias, rule)
        return out.transpose(1, 2).reshape(-1, num_heads * size)

    biases_of_parts = biases(rule.window)
    out = torch.cat([attend(part, bias) for part, bias in zip(rectangles.rectangles, biases_of_parts, strict=True)])
    return out.index_select(0, rectangles.restore_T).view(1, -1, num_heads, size)


def causal_bias(query: Tensor) -> Tensor:
    length = query.shape[2]
    return torch.full((length, length), -torch.inf, device=query.device).triu(1)


def attend_openly(query: Tensor, key: Tensor, value: Tensor, bias: Tensor, rule: Rule) -> Tensor:
    """Attention with all scores at once, which caps and sinks need on a CPU: s x heads x l x d."""
    refuse_dropout(rule.dropout)
    scores = query @ key.mT * rule.scaling
    if rule.soft_cap is not None:
        scores = rule.soft_cap * (scores / rule.soft_cap).tanh()
    scores = scores + bias.to(scores.dtype)
    if rule.sinks is not None:
        sinks = rule.sinks.to(scores.dtype)[:, None, None].expand(*scores.shape[:3], 1)
        return torch.cat((scores, sinks), -1).softmax(-1)[..., :-1].to(value.dtype) @ value
    return scores.softmax(-1).to(value.dtype) @ value


def attend_spans(
    spans: tuple[Span, ...], in_rectangles: Callable[[], Attend], query: Tensor, key: Tensor, value: Tensor, rule: Rule
) -> Tensor:
    """Attention span by span; windows and caps, of which the CPU's operator knows nothing, in rectangles."""
    if rule.window is not None or rule.soft_cap is not None:
        return in_rectangles()(query, key, value, rule)
    refuse_dropout(rule.dropout)
    size = value.shape[3]
    padded = value if size == query.shape[3] else pad(value, (0, query.shape[3] - size))
    inputs = query.to(value.dtype), key.to(value.dtype), padded
    return Spans.apply(*inputs, spans, rule.scaling, rule.sinks).transpose(1, 2)[..., :size]


@cache
def flex(device: str) -> Callable[..., Any]:
    """FlexAttention: its kernels on a GPU; elsewhere, for tests, forward alone and with all scores at once."""
    if device != "cuda":
        return flex_attention
    bound_recompiles()
    compiled: Any = torch.compile(flex_attention, fullgraph=True)
    return compiled


def bound_recompiles() -> None:
    """Let shapes differ more than torch's eight times, and stop where even that does not do: beyond its limit torch
    would run the unfused form, whose scores are heads x T x T numbers."""
    torch._dynamo.config.recompile_limit = max(RECOMPILES, torch._dynamo.config.recompile_limit)
    torch._dynamo.config.fail_on_recompile_limit_hit = True


def attend_sight(
    masks: Callable[[int | None], BlockMask], query: Tensor, key: Tensor, value: Tensor, rule: Rule
) -> Tensor:
    """No bias, no copies, no repeated key heads."""
    refuse_dropout(rule.dropout)
    inputs = query.to(value.dtype), key.to(value.dtype), value
    attend = partial(
        flex(query.device.type),
        *inputs,
        score_mod=None if rule.soft_cap is None else capped(rule.soft_cap),
        block_mask=masks(rule.window),
        scale=rule.scaling,
        enable_gqa=query.shape[1] != key.shape[1],
        kernel_options=KERNEL,
    )
    if rule.sinks is None:
        out: Tensor = attend()
        return out.transpose(1, 2)
    out, aux = attend(return_aux=AuxRequest(lse=True))
    # a sink takes e^s of the sum e^L + e^s, and adds nothing to the answer
    share = (aux.lse - rule.sinks[None, :, None].to(aux.lse.dtype)).sigmoid()
    return (out * share[..., None].to(out.dtype)).transpose(1, 2)


@cache
def capped(limit: float) -> Callable[[Tensor, Tensor, Tensor, Tensor, Tensor], Tensor]:
    """Return FlexAttention's function of a score that caps it."""

    def cap(score: Tensor, batch: Tensor, head: Tensor, query: Tensor, key: Tensor) -> Tensor:
        return limit * torch.tanh(score / limit)

    return cap


def block_mask(sight: Sight, window: int | None) -> BlockMask:
    """Return FlexAttention's mask of a layout, perhaps in a window of the last tokens of each path."""
    num, end_T, position_T = len(sight.end_T), sight.end_T, sight.position_T
    farthest = num if window is None else window

    def sees(batch: Tensor, head: Tensor, query: Tensor, key: Tensor) -> Tensor:
        return (key <= query) & (query < end_T[key])

    def sees_near(batch: Tensor, head: Tensor, query: Tensor, key: Tensor) -> Tensor:
        return (key <= query) & (query < end_T[key]) & (position_T[query] - position_T[key] < farthest)

    chosen = {"partly_qk": sight.partly_qk, "wholly_qk": sight.wholly_qk}
    chosen = chosen if window is None else blocks_within(sight, window)
    (num_partly, partly), (num_wholly, wholly) = key_blocks(chosen["partly_qk"]), key_blocks(chosen["wholly_qk"])
    return BlockMask.from_kv_blocks(
        num_partly,
        partly,
        num_wholly,
        wholly,
        BLOCK_SIZE=BLOCK,
        mask_mod=sees if window is None else sees_near,
        seq_lengths=(num, num),
    )


def key_blocks(visible_qk: Tensor) -> tuple[Tensor, Tensor]:
    """Count the blocks of keys that each block of queries sees, and list them first."""
    num_q, key_qk = visible_qk.sum(-1), visible_qk.int().argsort(descending=True, stable=True)
    return num_q.int()[None, None], key_qk.int()[None, None]


def refuse_dropout(dropout: float) -> None:
    if dropout:
        raise ValueError(f"packed attention: the model drops {dropout} of its attention; make it 0 in its config.json")


AttentionInterface.register(PACKED, packed_attention)
