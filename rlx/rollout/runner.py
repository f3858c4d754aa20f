"""A decoder and its cache: runs tokens of consecutive cache rows through the model.

Shapes: B rows, N tokens of each, V ids.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from rlx.rollout.cache import Cache
from rlx.rollout.decoder import Decoder

CPU_PASS = 256
"""Padded tokens in one prefill pass on CPU: activations stay in a core's cache."""
DEVICE_PASS = 2048
"""And elsewhere, where it only bounds the memory of attention scores."""


class Runner:
    """Rows are the cache's; what is in them is the engine's business."""

    def __init__(self, decoder: Decoder, max_rows: int, device: torch.device, dtype: torch.dtype) -> None:
        self.decoder, self.device = decoder, device
        self.pass_tokens = CPU_PASS if device.type == "cpu" else DEVICE_PASS
        self.cache = Cache(decoder.shape, max_rows, device, dtype)
        self._turns = decoder.turns(0)

    def reserve(self, num_rows: int, num_columns: int) -> None:
        """Room in the cache, and in the table of rotations."""
        self.cache.reserve(num_rows, num_columns)
        if len(self._turns) < self.cache.num_columns:
            self._turns = self.decoder.turns(self.cache.num_columns)

    def decode(self, ids: Sequence[int], positions: Sequence[int]) -> Tensor:
        """Logits after one more token of every row, (B, V)."""
        self.cache.shed(max(positions) + 1)
        return self.decoder.logits(self._forward(0, [(id_,) for id_ in ids], positions))

    def extend(self, first_row: int, suffixes: Sequence[Sequence[int]], starts: Sequence[int]) -> Tensor:
        """Logits after several more tokens of consecutive rows, each from its own position, (B, V).

        Rows of like length are padded to the longest and run together. Padding is written to the cache past a row's
        end, where it is never read and soon overwritten. A suffix longer than a pass is run in pieces.
        """
        logits = []
        for first, last in split_passes([len(suffix) for suffix in suffixes], self.pass_tokens):
            part, begin = suffixes[first:last], starts[first:last]
            if len(part) == 1:
                logits.append(self._extend_alone(first_row + first, part[0], begin[0]))
            else:
                logits.append(self._extend_together(first_row + first, part, begin))
        return logits[0] if len(logits) == 1 else torch.cat(logits)

    def _extend_alone(self, row: int, suffix: Sequence[int], start: int) -> Tensor:
        for first in range(0, len(suffix), self.pass_tokens):
            hidden = self._forward(row, [suffix[first : first + self.pass_tokens]], [start + first])
        return self.decoder.logits(hidden[-1:])

    def _extend_together(self, first_row: int, suffixes: Sequence[Sequence[int]], starts: Sequence[int]) -> Tensor:
        longest = max(map(len, suffixes))
        hidden = self._forward(first_row, [(*suffix, *(0,) * (longest - len(suffix))) for suffix in suffixes], starts)
        ends = [row * longest + len(suffix) - 1 for row, suffix in enumerate(suffixes)]
        return self.decoder.logits(hidden.index_select(0, torch.tensor(ends, device=self.device)))

    def _forward(self, first_row: int, ids_BN: Sequence[Sequence[int]], starts: Sequence[int]) -> Tensor:
        """Hidden states, (B * N, hidden)."""
        num_rows, num_tokens = len(ids_BN), len(ids_BN[0])
        self.reserve(first_row + num_rows, max(starts) + num_tokens)
        given = torch.tensor([(start, *ids) for start, ids in zip(starts, ids_BN)], device=self.device)
        positions = given[:, :1]
        if num_tokens > 1:
            positions = positions + torch.arange(num_tokens, device=self.device)
        return self.decoder.forward(
            given[:, 1:].reshape(-1),
            self._turns.index_select(0, positions.reshape(-1)),
            self.cache.places(first_row, positions),
            self.cache.bias(positions),
            self.cache.view(first_row, num_rows),
            num_rows,
        )


def split_passes(lengths: Sequence[int], pass_tokens: int) -> Iterator[tuple[int, int]]:
    """Runs (first, last) of suffixes to pad together: ones of like length, within the limit of a pass."""
    first = 0
    for last in range(1, len(lengths) + 1):
        run = lengths[first : last + 1]
        full = len(run) * max(run) > pass_tokens or max(run) > 2 * min(run)
        if last == len(lengths) or full:
            yield first, last
            first = last
