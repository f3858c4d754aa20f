"""AdamW as all learners use it: which parameters decay, and the learning rate of each update."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import torch

from rlx.algo.parts import Optimizer


def trained(model: torch.nn.Module) -> Iterator[tuple[str, torch.nn.Parameter]]:
    return ((name, p) for name, p in model.named_parameters() if p.requires_grad)


def build_adam(model: torch.nn.Module, optimizer: Optimizer) -> torch.optim.AdamW:
    return torch.optim.AdamW(parameter_groups(model, optimizer), betas=optimizer.betas, fused=True)


def parameter_groups(model: torch.nn.Module, optimizer: Optimizer) -> list[dict[str, Any]]:
    """Matrices decay; biases and norms do not."""
    matrices = [p for _, p in trained(model) if p.dim() > 1]
    vectors = [p for _, p in trained(model) if p.dim() <= 1]
    decays = ((matrices, optimizer.weight_decay), (vectors, 0.0))
    return [{"params": ps, "lr": optimizer.lr, "weight_decay": decay} for ps, decay in decays if ps]


def learning_rate(optimizer: Optimizer, update: int, num_steps: int) -> float:
    """The rate of update number `update` (from 0) of a run of `num_steps`."""
    if update < optimizer.warmup_steps:
        return optimizer.lr * (update + 1) / optimizer.warmup_steps
    done = min(1.0, (update - optimizer.warmup_steps) / max(1, num_steps - optimizer.warmup_steps))
    match optimizer.schedule:
        case "constant":
            return optimizer.lr
        case "linear":
            return optimizer.lr * (1 - done)
        case "cosine":
            return optimizer.lr * (1 + math.cos(math.pi * done)) / 2
