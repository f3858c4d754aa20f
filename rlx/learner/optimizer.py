"""AdamW as all learners use it: which parameters decay, and the learning rate of each update."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import torch

from rlx.algo.parts import Critic, Optimizer

Named = Iterable[tuple[str, torch.nn.Parameter]]


def build_adam(trained: Named, optimizer: Optimizer, critic: Critic | None = None) -> torch.optim.AdamW:
    return torch.optim.AdamW(parameter_groups(trained, optimizer, critic), betas=optimizer.betas, fused=True)


def parameter_groups(trained: Named, optimizer: Optimizer, critic: Critic | None = None) -> list[dict[str, Any]]:
    """Matrices decay; biases and norms do not. Heads have a rate of their own; `peak` is what the schedule is of."""
    groups: dict[tuple[bool, bool], list[torch.nn.Parameter]] = {}
    for name, p in trained:
        groups.setdefault((name.startswith("heads."), p.dim() <= 1), []).append(p)
    rates = {False: optimizer.lr, True: optimizer.lr if critic is None else critic.lr}
    decays = {False: optimizer.weight_decay, True: 0.0}
    return [
        {"params": groups[key], "lr": rates[key[0]], "peak": rates[key[0]], "weight_decay": decays[key[1]]}
        for key in sorted(groups)
    ]


def learning_rate(optimizer: Optimizer, peak: float, update: int, num_steps: int) -> float:
    """The rate of update number `update` (from 0) of a run of `num_steps`."""
    if update < optimizer.warmup_steps:
        return peak * (update + 1) / optimizer.warmup_steps
    decay_start = optimizer.warmup_steps + optimizer.hold_steps
    done = min(1.0, max(0, update - decay_start) / max(1, num_steps - decay_start))
    match optimizer.schedule:
        case "constant":
            return peak
        case "linear":
            return peak * (1 - done)
        case "cosine":
            return peak * (1 + math.cos(math.pi * done)) / 2
