"""Muon (https://kellerjordan.github.io/posts/muon/): hidden matrices move along their momentum's nearest orthogonal
matrix, which five Newton-Schulz steps come near enough to."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn


def orthogonalise(matrices: Tensor) -> Tensor:
    """Newton-Schulz towards the nearest orthogonal matrix, for a stack of equal shapes, with Muon's coefficients.

    The precision is bfloat16, as in the author's code: the result is approximate in any case.
    """
    tall = matrices.size(-2) > matrices.size(-1)
    x = matrices.mT if tall else matrices
    x = (x / (x.norm(dim=(-2, -1), keepdim=True) + 1e-7)).bfloat16()
    for _ in range(5):
        gram = x @ x.mT
        x = 3.4445 * x + (-4.7750 * gram + 2.0315 * gram @ gram) @ x
    return (x.mT if tall else x).to(matrices.dtype)


class Muon(torch.optim.Optimizer):
    """Nesterov momentum, orthogonalised; one group per shape, for one batched product per shape."""

    def __init__(self, parameters: Sequence[nn.Parameter], lr: float, momentum: float = 0.95) -> None:
        shapes = sorted({tuple(p.shape) for p in parameters})
        groups = [{"params": [p for p in parameters if tuple(p.shape) == shape]} for shape in shapes]
        super().__init__(groups, {"lr": lr, "momentum": momentum})

    @torch.no_grad()
    def step(self, closure: None = None) -> None:  # type: ignore[override]
        for group in self.param_groups:
            gradient = torch.stack([p.grad for p in group["params"]])
            state = self.state[group["params"][0]]
            buffer = state.setdefault("buffer", torch.zeros_like(gradient))
            buffer.lerp_(gradient, 1 - group["momentum"])
            update = orthogonalise(gradient.lerp(buffer, group["momentum"]))
            scale = group["lr"] * max(1.0, update.size(-2) / update.size(-1)) ** 0.5
            for parameter, change in zip(group["params"], update, strict=True):
                parameter.sub_(change, alpha=scale)
