"""Figures of an update, and the evidence of one that went wrong."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from rlx.algo.parts import Tokens
from rlx.learner.batch import Batch
from rlx.learner.packing import Packed
from rlx.types import Metrics

NO_ADVANTAGE = 1e-9
"""Largest advantage that counts as zero: a group of equal rewards may leave rounding."""


def sum_metrics(shares: Sequence[Metrics]) -> Metrics:
    """Add up the shares of each metric, in their order."""
    total: Metrics = {}
    for share in shares:
        for name, value in share.items():
            total[name] = total.get(name, 0.0) + value
    return total


def kl_per_token(tokens: Tokens) -> Tensor:
    """KL(policy that sampled || policy) per token: r - 1 - log r, r = pi / pi_old (k3 of Schulman 2020)."""
    log_ratio = (tokens.now["logp"] - tokens.old["logp"]).detach()
    return log_ratio.exp() - 1 - log_ratio


def measure_explained(batch: Batch) -> Metrics:
    """Return the share of the returns' variance that the values explained before, 1 - Var(G - V) / Var(G). Where credit
    has targets for the values after turns alone, it is of these."""
    for name, returns_M in (("value", batch.returns_M), ("value_after", batch.returns_after_M)):
        if returns_M is not None and name in batch.old_M and returns_M.isfinite().sum() > 1:
            is_known = returns_M.isfinite()
            finite_returns, values = returns_M[is_known], batch.old_M[name][is_known]
            spread = finite_returns.var().item()
            return {"critic/explained": 1 - (finite_returns - values).var().item() / spread if spread else 0.0}
    return {}


def measure_uncredited(batch: Batch) -> Metrics:
    """Return the share of the batch's trained tokens whose advantage is zero; 1 for a batch without such tokens."""
    if batch.advantage_M is None or not len(batch.advantage_M):
        return {"advantage/zero": 1.0}
    return {"advantage/zero": (batch.advantage_M.abs() < NO_ADVANTAGE).double().mean().item()}


def average_metrics(steps: Sequence[Metrics]) -> Metrics:
    return {name: sum(step[name] for step in steps) / len(steps) for name in (steps[0] if steps else ())}


def evidence(packed: Packed, tokens: Tokens) -> dict[str, Tensor]:
    """Return the tensors of a micro-batch and of what the loss saw of it, to be stored."""
    tensors = {**tokens.now, **{f"old_{name}": x for name, x in tokens.old.items()}}
    tensors |= {name: getattr(tokens, name) for name in ("advantage", "row", "group")}
    laid = {
        "input_ids": packed.input_ids_BL.flatten(),
        "position_ids": packed.position_ids_BL.flatten(),
        "token": packed.token_m,
    }
    return {name: x.detach().cpu().contiguous() for name, x in {**laid, **tensors}.items()}
