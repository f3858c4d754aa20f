"""A critic's head: what is still to be earned, read from a language model's last hidden state."""

from __future__ import annotations

import torch
from torch import Tensor


class ValueHead(torch.nn.Linear):
    """V = w . h + b, nothing at first; computed in float32, whatever the format of the model beside it.

    Legend: T tokens, H hidden size.
    """

    def __init__(self, width: int) -> None:
        super().__init__(width, 1)
        torch.nn.init.zeros_(self.weight)
        torch.nn.init.zeros_(self.bias)

    def forward(self, hidden_TH: Tensor) -> Tensor:
        with torch.autocast(hidden_TH.device.type, enabled=False):
            return torch.nn.functional.linear(hidden_TH.float(), self.weight.float(), self.bias.float())[:, 0]
