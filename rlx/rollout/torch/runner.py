"""A decoder and its cache: runs tokens of consecutive cache rows through the model.

Shapes: B rows, N tokens of each, V ids.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from rlx.rollout.torch.cache import Cache
from rlx.rollout.torch.decoder import Decoder, Pass, build_decoder

CPU_PASS = 256
"""Padded tokens in one prefill pass on CPU: activations stay in a core's cache."""
DEVICE_PASS = 2048
"""And elsewhere, where it only bounds the memory of attention scores."""


class Runner:
    """Rows are the cache's; what is in them is the engine's business."""

    def __init__(self, decoder: Decoder, max_rows: int, device: torch.device, dtype: torch.dtype) -> None:
        self.decoder, self.device, self.dtype = decoder, device, dtype
        self.pass_tokens = pass_tokens_on(device)
        self.cache = Cache(decoder.shape, max_rows, device, dtype)
        self._rotations = decoder.rotations(0)

    def load(self, config: Any, weights: Mapping[str, Tensor], num_added: int) -> None:
        """Copy a policy's weights. Rows keep what the old weights computed."""
        self.decoder = build_decoder(config, weights, self.device, self.dtype, num_added)

    def reserve(self, num_rows: int, num_columns: int) -> None:
        """Room in the cache, and in the table of rotations."""
        self.cache.reserve(num_rows, num_columns)
        if len(self._rotations) < self.cache.num_columns:
            self._rotations = self.decoder.rotations(self.cache.num_columns)

    def decode(self, ids: Sequence[int], positions: Sequence[int]) -> Tensor:
        """Logits after one more token of every row, (B, V)."""
        self.cache.shed(max(positions) + 1, len(ids))
        return self._forward(0, [(id_,) for id_ in ids], positions)

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
                logits.append(self._forward(first_row + first, part, begin))
        return logits[0] if len(logits) == 1 else torch.cat(logits)

    def _extend_alone(self, row: int, suffix: Sequence[int], start: int) -> Tensor:
        for first in range(0, len(suffix), self.pass_tokens):
            logits = self._forward(row, [suffix[first : first + self.pass_tokens]], [start + first])
        return logits

    def _forward(self, first_row: int, suffixes: Sequence[Sequence[int]], starts: Sequence[int]) -> Tensor:
        """Logits after each suffix, (B, V)."""
        num_rows, longest = len(suffixes), max(map(len, suffixes))
        self.reserve(first_row + num_rows, max(starts) + longest)
        padded = [(start, *suffix, *(0,) * (longest - len(suffix))) for start, suffix in zip(starts, suffixes)]
        tokens = torch.tensor(padded, device=self.device)
        positions_BN, ends_B = tokens[:, :1], None
        if longest > 1:
            positions_BN = positions_BN + torch.arange(longest, device=self.device)
            ends = [row * longest + len(suffix) - 1 for row, suffix in enumerate(suffixes)]
            ends_B = torch.tensor(ends, device=self.device)
        positions_M = positions_BN.reshape(-1)
        return self.decoder.forward(
            Pass(
                ids=tokens[:, 1:].reshape(-1),
                rotations=self._rotations.index_select(0, positions_M),
                places=self.cache.places(first_row, positions_BN),
                bias=self.cache.bias(positions_M),
                caches=self.cache.view(first_row, num_rows),
                num_rows=num_rows,
                ends=ends_B,
            )
        )


def pass_tokens_on(device: torch.device) -> int:
    """Return the number of padded tokens in one prefill pass."""
    return CPU_PASS if device.type == "cpu" else DEVICE_PASS


def split_passes(lengths: Sequence[int], pass_tokens: int) -> Iterator[tuple[int, int]]:
    """Runs (first, last) of suffixes to pad together: ones of like length, within the limit of a pass."""
    first = 0
    for last in range(1, len(lengths) + 1):
        run = lengths[first : last + 1]
        full = len(run) * max(run) > pass_tokens or max(run) > 2 * min(run)
        if last == len(lengths) or full:
            yield first, last
            first = last
