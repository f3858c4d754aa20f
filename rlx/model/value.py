"""A critic's head: what is still to be earned, read from a language model's last hidden state."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor


class ValueHead(torch.nn.Linear):
    """V = w . h + b, nothing at first; computed in float32, whatever the format of the model beside it.

    The gradients of w and b are divided by the number of weights. AdamW does not mind their scale, but the limit of the
    gradient's norm does: it is one for policy and critic, and h is long, so the head's gradient would be most of it. In
    the first 16 updates of nano on BabyAI-Text (value_weight=0.5) it was 9 times that of the whole model, by the
    median. So its noise scaled the policy's gradient down.

    Legend: T tokens, H hidden size.
    """

    def __init__(self, width: int) -> None:
        super().__init__(width, 1)
        torch.nn.init.zeros_(self.weight)
        torch.nn.init.zeros_(self.bias)

    def forward(self, hidden_TH: Tensor) -> Tensor:
        with torch.autocast(hidden_TH.device.type, enabled=False):
            weight, bias = (Damped.apply(p.float(), 1 / self.in_features) for p in (self.weight, self.bias))
            return torch.nn.functional.linear(hidden_TH.float(), weight, bias)[:, 0]


class Damped(torch.autograd.Function):
    """The same values, with a gradient that is multiplied by a factor."""

    @staticmethod
    def forward(ctx: Any, values: Tensor, factor: float) -> Tensor:
        ctx.factor = factor
        return values.view_as(values)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        return gradient * ctx.factor, None
