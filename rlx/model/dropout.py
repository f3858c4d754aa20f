"""Dropout whose masks are a pure function of (seed, module, optimizer step, token, feature).

torch's own draws from the process's global generator: a resumed run, another number of processes or another packing
of the same tokens would drop other numbers. Here a token keeps its mask wherever it is packed. So the gradient of a
step does not depend on micro-batches. Layers that are computed again in the backward pass drop the same numbers.

Legend: B rows of L tokens each (one row in a forest), T = B L packed tokens, H features.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from rlx.base.stream import stream_of

CHUNK_ELEMENTS = 2**24
"""Numbers hashed at a time: the hashes are four times as large as the mask that stays."""
MULTIPLIERS = (0x7FEB352D, -0x7B935975)
"""Odd constants of a 32-bit finalizer (Wellons' lowbias32), the second as a signed number."""


class KeyedDropout(torch.nn.Module):
    """Dropout for a micro-batch of B x L x H numbers; `at` says which step and which tokens come next."""

    def __init__(self, p: float, key: int) -> None:
        super().__init__()
        self.p = p
        self.key = key
        self.step: tuple[int, ...] = ()
        self.token_T: Tensor | None = None

    def at(self, step: tuple[int, ...], token_T: Tensor) -> None:
        """Set the optimizer step and the tokens' places in the batch, for the passes to come."""
        self.step, self.token_T = step, token_T

    def forward(self, x: Tensor) -> Tensor:
        if not self.training:
            return x
        if self.token_T is None or len(self.token_T) != x.shape[:-1].numel():
            raise ValueError("KeyedDropout: call at(step, token_T) with the tokens of this micro-batch first")
        dropped_TH = draw_mask(stream_of(self.key, *self.step), self.token_T.to(x.device), x.shape[-1], self.p)
        return x.masked_fill(dropped_TH.view(x.shape), 0.0) / (1 - self.p)

    def extra_repr(self) -> str:
        return f"p={self.p}"


@torch.no_grad()
def draw_mask(key: int, token_T: Tensor, width: int, p: float) -> Tensor:
    """Return the T x H mask of numbers to drop, each with probability `p`."""
    row_T = mix(token_T.to(torch.int32) ^ to_signed(key))
    column_H = mix(torch.arange(width, dtype=torch.int32, device=token_T.device) ^ to_signed(key >> 32))
    threshold = int(p * 2**32) - 2**31
    rows = max(1, CHUNK_ELEMENTS // width)
    return torch.cat([mix(part[:, None] ^ column_H) < threshold for part in row_T.split(rows)])


def mix(x: Tensor) -> Tensor:
    """Hash each 32-bit number; products wrap around."""
    first, second = MULTIPLIERS
    x = (x ^ shift_right(x, 16)) * first
    x ^= shift_right(x, 15)
    x *= second
    x ^= shift_right(x, 16)
    return x


def shift_right(x: Tensor, bits: int) -> Tensor:
    """Shift to the right as unsigned numbers are shifted."""
    return (x >> bits) & ((1 << (32 - bits)) - 1)


def to_signed(number: int) -> int:
    """Return the lowest 32 bits as a signed number."""
    low = number & 0xFFFFFFFF
    return low - 2**32 if low >= 2**31 else low


def key_dropouts(model: torch.nn.Module, seed: int) -> None:
    """Replace every dropout of a model, its adapters' and its own, by one keyed by (seed, name)."""
    for name, module in list(model.named_modules()):
        if isinstance(module, torch.nn.Dropout) and module.p:
            owner, _, last = name.rpartition(".")
            setattr(model.get_submodule(owner), last, KeyedDropout(module.p, stream_of(seed, "dropout", name)))


def dropouts_of(model: Any) -> Iterator[KeyedDropout]:
    return (module for module in model.modules() if isinstance(module, KeyedDropout))
