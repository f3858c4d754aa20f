"""Log-probabilities and entropies at chosen positions, never tokens x vocabulary at once.

    z = f(h W^T + b) / temperature, minus infinity outside the mask;  logp = z[target] - logsumexp z;  H = -sum p log p

f is the cap and factor of some model families (rlx/model/logits.py), otherwise nothing.
Rows of added actions are joined to W for as long as a chunk of z takes. With them the vocabulary's share is returned
too: log p(V) = logsumexp of logp over V. So logp - log p(V) is a token's log-prob among the vocabulary alone.

Probabilities are the softmax of log-probs: exp of what is forbidden takes a CPU ten times as long.
Positions go through in chunks; backward computes each chunk's z again instead of keeping it. Under autocast the
products of both passes are in its format: hidden states and head are cast once, and kept so between the passes.

Legend: M positions, H hidden size, V vocabulary, A added actions, W = V + A, c one chunk of M.
"""

# ruff: noqa: N815 (fields carry shape suffixes)
from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from rlx.hardware.sizing.update_sizes import CHUNK_ELEMENTS
from rlx.model.logits import PLAIN, LogitShape
from rlx.model.masks import FORBIDDEN, Masks

LEAST = torch.finfo(torch.float32).tiny
"""Stand-in for a probability of 0, so that its log is a number."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Head:
    """Output layer: turns hidden states into a distribution."""

    weight_VH: Tensor
    bias_V: Tensor | None = None
    rows_AH: Tensor | None = None
    temperature: float = 1.0
    masks: Masks | None = None
    shape: LogitShape = PLAIN

    def log_softmax(self, hidden_cH: Tensor, state_c: Tensor) -> Tensor:
        return self.normalize(self.logits(hidden_cH), state_c)

    def logits(self, hidden_cH: Tensor) -> Tensor:
        """Return the model's logits in float32, those of added actions last."""
        z_cW = torch.nn.functional.linear(hidden_cH, self.weight_VH, self.bias_V)
        if self.rows_AH is not None:
            z_cW = torch.cat((z_cW, hidden_cH @ self.rows_AH.T), -1)
        return self.shape.apply(z_cW.float())

    def normalize(self, z_cW: Tensor, state_c: Tensor) -> Tensor:
        """Apply temperature and masks to logits, which are overwritten, and return log-probs."""
        if self.temperature != 1.0:
            z_cW /= self.temperature
        if self.masks is not None:
            self.masks.apply(z_cW, state_c)
        return z_cW.log_softmax(-1)

    def cast(self, dtype: torch.dtype) -> Head:
        """Return the head in another dtype; tensors of that dtype are shared, not copied."""
        bias_V, rows_AH = (None if x is None else x.to(dtype) for x in (self.bias_V, self.rows_AH))
        return replace(self, weight_VH=self.weight_VH.to(dtype), bias_V=bias_V, rows_AH=rows_AH)


def log_probs(head: Head, hidden_MH: Tensor, target_M: Tensor, state_M: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Compute log p of each target and the entropy at each position, differentiable in the hidden states and the head.

    The third tensor is log p(V) at each position (0 without added actions). `state_M` is the automaton state of each
    position, -1 for none.
    """
    logp_M, entropy_M, share_M = Chunked.apply(
        hidden_MH, head.weight_VH, head.bias_V, head.rows_AH, target_M, state_M, head
    )
    if head.masks is not None and (logp_M < FORBIDDEN / 2).any():
        raise ValueError("log_probs: a token lies outside its mask; engine and learner disagree on the automaton")
    return logp_M, entropy_M, share_M


class Chunked(torch.autograd.Function):
    """`log_probs` with memory for one chunk of logits."""

    @staticmethod
    def forward(
        ctx: Any,
        hidden_MH: Tensor,
        weight_VH: Tensor,
        bias_V: Tensor | None,
        rows_AH: Tensor | None,
        target_M: Tensor,
        state_M: Tensor,
        head: Head,
    ) -> tuple[Tensor, Tensor, Tensor]:
        dtype = products_dtype(weight_VH)
        ctx.dtypes = hidden_MH.dtype, weight_VH.dtype
        ctx.head = head = head.cast(dtype)
        hidden_MH = hidden_MH.to(dtype)
        logp_M, entropy_M, share_M = (torch.zeros(len(hidden_MH), device=hidden_MH.device) for _ in range(3))
        for c in chunks(hidden_MH, weight_VH):
            logp_cW = head.log_softmax(hidden_MH[c], state_M[c])
            logp_M[c] = logp_cW.gather(1, target_M[c, None])[:, 0]
            p_cW = logp_cW.softmax(-1)
            if rows_AH is not None:
                share_M[c] = p_cW[:, : len(weight_VH)].sum(-1).clamp(min=LEAST).log()
            entropy_M[c] = -p_cW.mul_(logp_cW).sum(-1)
        ctx.save_for_backward(hidden_MH, head.weight_VH, head.bias_V, head.rows_AH, target_M, state_M, entropy_M)
        ctx.set_materialize_grads(False)
        return logp_M, entropy_M, share_M

    @staticmethod
    def backward(ctx: Any, *grads_M: Tensor | None) -> tuple[Tensor | None, ...]:
        grad_logp_M, grad_entropy_M, grad_share_M = grads_M
        hidden_MH, weight_VH, bias_V, rows_AH, target_M, state_M, entropy_M = ctx.saved_tensors
        wants_hidden, wants_weight, wants_bias, wants_rows = ctx.needs_input_grad[:4]
        hidden_dtype, trained = ctx.dtypes
        grad_hidden_MH = torch.empty_like(hidden_MH, dtype=hidden_dtype) if wants_hidden else None
        grad_weight_VH = torch.zeros_like(weight_VH, dtype=torch.float32) if wants_weight else None
        grad_bias_V = torch.zeros_like(bias_V, dtype=torch.float32) if wants_bias else None
        grad_rows_AH = torch.zeros_like(rows_AH, dtype=torch.float32) if wants_rows else None
        for c in chunks(hidden_MH, weight_VH):
            z_cW = ctx.head.logits(hidden_MH[c])
            slope_cW = None if ctx.head.shape.is_plain else ctx.head.shape.slope(z_cW)
            logp_cW = ctx.head.normalize(z_cW, state_M[c])
            del z_cW  # a chunk of logits is large
            share_grad_cW = None if grad_share_M is None else grad_share(logp_cW, len(weight_VH), grad_share_M[c])
            grad_cW = grad_logits(
                logp_cW, target_M[c], entropy_M[c], *(g if g is None else g[c] for g in (grad_logp_M, grad_entropy_M))
            )
            grad_cW = grad_cW if share_grad_cW is None else grad_cW.add_(share_grad_cW)
            grad_cW = grad_cW.div_(ctx.head.temperature)
            grad_cW = (grad_cW if slope_cW is None else grad_cW.mul_(slope_cW)).to(weight_VH.dtype)
            grad_cV, grad_cA = grad_cW[:, : len(weight_VH)], grad_cW[:, len(weight_VH) :]
            if grad_hidden_MH is not None:
                grad_hidden_MH[c] = grad_cV @ weight_VH
                if rows_AH is not None:
                    grad_hidden_MH[c] += grad_cA @ rows_AH
            if grad_weight_VH is not None:
                add_product(grad_weight_VH, grad_cV.T, hidden_MH[c])
            if grad_bias_V is not None:
                grad_bias_V += grad_cV.sum(0)
            if grad_rows_AH is not None:
                add_product(grad_rows_AH, grad_cA.T, hidden_MH[c])
        grads = (g if g is None else g.to(trained) for g in (grad_weight_VH, grad_bias_V, grad_rows_AH))
        return (grad_hidden_MH, *grads, None, None, None)


def products_dtype(weight_VH: Tensor) -> torch.dtype:
    """Autocast's format where that is on, else the head's own."""
    device = weight_VH.device.type
    return torch.get_autocast_dtype(device) if torch.is_autocast_enabled(device) else weight_VH.dtype


def chunks(hidden_MH: Tensor, weight_VH: Tensor) -> list[slice]:
    size = max(16, CHUNK_ELEMENTS[hidden_MH.device.type] // len(weight_VH))
    return [slice(low, low + size) for low in range(0, len(hidden_MH), size)]


def grad_logits(
    logp_cW: Tensor, target_c: Tensor, entropy_c: Tensor, grad_logp_c: Tensor | None, grad_entropy_c: Tensor | None
) -> Tensor:
    """d logp[target] / dz = onehot - p;  dH / dz = -p (log p + H). Overwrites `logp_cW`."""
    p_cW = logp_cW.softmax(-1)
    if grad_entropy_c is None:
        grad_cW = p_cW
        if grad_logp_c is not None:
            grad_cW *= -grad_logp_c[:, None]
    else:
        coefficient_cW = logp_cW.add_(entropy_c[:, None]).mul_(-grad_entropy_c[:, None])
        if grad_logp_c is not None:
            coefficient_cW -= grad_logp_c[:, None]
        grad_cW = p_cW.mul_(coefficient_cW)
    if grad_logp_c is not None:
        grad_cW.scatter_add_(1, target_c[:, None], grad_logp_c[:, None])
    return grad_cW


def grad_share(logp_cW: Tensor, num_V: int, grad_c: Tensor) -> Tensor:
    """d log p(V) / dz = p / p(V) within V - p. Where all of V is forbidden nobody asks for it: zeros come of it."""
    grad_cW = -logp_cW.softmax(-1)
    grad_cW[:, :num_V] += logp_cW[:, :num_V].softmax(-1)
    return grad_cW.mul_(grad_c[:, None])


def add_product(total: Tensor, left: Tensor, right: Tensor) -> None:
    """total += left @ right, in place where the formats agree."""
    if left.dtype == total.dtype:
        total.addmm_(left, right)
    else:
        total += left @ right
